import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type AgentClient, CLIENTS } from '../helpers/agent-clients/index.ts'
import { PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { ALLOW } from '../helpers/mcp-2.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import type { Page, WebBrowser } from '../helpers/web-browser.ts'

const NOTES = 'https://app.example.com/mcp'
const CALLS = 'https://auth.example.com/portals/main/account/calls'
const MINUTE = 60_000
const APPROVED = { hosts: ['app.example.com'], tools: ['whoami'], require: 'reads', approve: {} }

interface Place {
  /** The port of a server that Gatehouse sends calls to itself. */
  readonly upstreamPort?: number
  /** The tools that it has run, where a person approves `whoami`. */
  readonly ran?: readonly string[]
  readonly scopes: readonly string[]
  /** What `read_note` and `delete_note` answer. */
  readonly texts: readonly [read: string, deleted: string]
}

/** Where servers are. */
const PLACES: Readonly<Record<string, (t: Test, client: AgentClient) => Promise<Place>>> = {
  'behind a check': async (_t, { scopes }) => ({ scopes, texts: ['a note', 'deleted'] }),
  'with sessions, behind Gatehouse': async (t, client) => proxied(t, client, 1.12),
  'of SDK 2, behind Gatehouse': async (t, client) => proxied(t, client, 2),
}

async function proxied(t: Test, { scopesByBody }: AgentClient, sdk: 1.12 | 2): Promise<Place> {
  const { port: upstreamPort, ran } = await startToolServer(t, sdk)
  return { upstreamPort, ran, scopes: scopesByBody, texts: ['read_note', 'delete_note'] }
}

for (const client of CLIENTS)
  for (const [title, place] of Object.entries(PLACES)) {
    if (client.isExtra && client.lacks) continue
    t.test(`${client.title}, server ${title}`, { skip: client.lacks }, async (t) => {
      const { scopes, texts, ran, ...upstream } = await place(t, client)
      const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
      const { browser, clock, document, port, certificate, ...gate } = await startAgents(
        t,
        'nginx',
        provider,
        {
          portal: { authorizationServer: { registration: true, privateNetworks: ['127.0.0.0/8'] } },
          ...(ran && { rules: [APPROVED] }),
          ...upstream,
        },
      )
      const folder = join(gate.folder, 'client')
      mkdirSync(folder)
      const asked: string[] = []
      const visit = async (url: string) => {
        const scopes = new URL(url).searchParams.get('scope') ?? ''
        // Some name them in any order.
        asked.push(scopes.split(' ').sort().join(' '))
        const page = await browser.open(url)
        return (page.status === 0 ? page : await browser.press(page, ALLOW)).url
      }
      const { call } = await client.start(t, {
        ...{ url: NOTES, port, ca: certificate.rootPem, folder, visit },
        ...(client.hasDocument && { document: document.id }),
      })
      const [read, deleted] = texts
      t.equal(await call('read_note'), read, 'it gets in with nothing but the URL')
      if (scopes.at(-1)?.includes('notes:write')) t.equal(await call('delete_note'), deleted)
      t.same(asked, scopes)
      await clock.advance(11 * MINUTE)
      t.equal(await call('read_note'), read, 'also when its token has ended')
      t.equal(document.asked() > 0, client.hasDocument)
      if (!ran) return
      const before = ran.length
      const answer = call('whoami')
      const question = await findCall(browser)
      t.equal(ran.length, before, 'nothing runs before a person has said yes')
      await browser.press(question, 'Allow once')
      await answer
      t.same(ran.slice(before), ['whoami'], 'it waits for the yes')
    })
  }

/** The page of the call that waits for the person, once there is one. */
async function findCall(browser: WebBrowser): Promise<Page> {
  for (;;) {
    const { body, url } = await browser.open(CALLS)
    const [, path] = /href="([^"]*\/account\/calls\/[\w-]+)"/.exec(body) ?? []
    if (path !== undefined) return browser.open(new URL(path, url))
    await setTimeout(50)
  }
}
