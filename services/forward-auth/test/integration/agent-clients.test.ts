import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AgentClient, CLIENTS } from '../helpers/agent-clients/index.ts'
import { PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { ALLOW } from '../helpers/mcp-2.ts'
import { startToolServer } from '../helpers/tool-servers.ts'

const NOTES = 'https://app.example.com/mcp'
const MINUTE = 60_000

interface Place {
  /** The port of a server that Gatehouse sends calls to itself. */
  readonly upstreamPort?: number
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
  const { port: upstreamPort } = await startToolServer(t, sdk)
  return { upstreamPort, scopes: scopesByBody, texts: ['read_note', 'delete_note'] }
}

for (const client of CLIENTS)
  for (const [title, place] of Object.entries(PLACES)) {
    if (client.isExtra && client.lacks) continue
    t.test(`${client.title}, server ${title}`, { skip: client.lacks }, async (t) => {
      const { scopes, texts, ...upstream } = await place(t, client)
      const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
      const { browser, clock, document, port, certificate, ...gate } = await startAgents(
        t,
        'nginx',
        provider,
        {
          portal: { authorizationServer: { registration: true, privateNetworks: ['127.0.0.0/8'] } },
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
    })
  }
