import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CLIENTS } from '../helpers/agent-clients/index.ts'
import { PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { ALLOW } from '../helpers/mcp-2.ts'

const NOTES = 'https://app.example.com/mcp'
const MINUTE = 60_000

for (const client of CLIENTS) {
  if (client.isExtra && client.lacks) continue
  t.test(client.title, { skip: client.lacks }, async (t) => {
    const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
    const { browser, clock, document, port, certificate, ...gate } = await startAgents(
      t,
      'nginx',
      provider,
      { portal: { authorizationServer: { registration: true, privateNetworks: ['127.0.0.0/8'] } } },
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
    t.equal(await call('read_note'), 'a note', 'it gets in with nothing but the URL')
    t.equal(await call('delete_note'), 'deleted')
    t.same(asked, client.scopes)
    await clock.advance(11 * MINUTE)
    t.equal(await call('read_note'), 'a note', 'also when its token has ended')
    t.equal(document.asked() > 0, client.hasDocument)
  })
}
