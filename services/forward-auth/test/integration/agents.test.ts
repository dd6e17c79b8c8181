import t from 'tap'
import { startSessionProvider } from '../../../../packages/identity-providers/test/stand-ins/session-provider.ts'
import { until } from '../../../../scripts/test/until.ts'
import { CALLBACK, client, PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { missingKeycloak } from '../helpers/keycloak.ts'
import type { Page } from '../helpers/web-browser.ts'
import { named, text } from '../pages/read.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'
import { SHAPES } from '../shapes.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const NOTES = 'https://app.example.com/mcp'
const ISSUER = 'https://auth.example.com/portals/main'
const ACCOUNT = `${ISSUER}/account`
const RESOURCE_METADATA = 'https://app.example.com/.well-known/oauth-protected-resource/mcp'
const SERVER_METADATA =
  'https://auth.example.com/.well-known/oauth-authorization-server/portals/main'

/** What a page asks for, in its words. */
const factsOn = (page: Page) => named(page.body, 'dd').map((one) => wordsIn(one).join(' '))

function wordsIn(node: Parameters<typeof text>[0]): string[] {
  if ('childNodes' in node) return node.childNodes.flatMap(wordsIn)
  return [text(node).trim()].filter(Boolean)
}

const missing = (name: string, proxy: ProxyName) =>
  (name === 'Keycloak' && missingKeycloak) || missingProgram(proxy)

const [first, ...others] = Object.keys(PROXIES) as ProxyName[]
const PAIRS = [
  ...Object.keys(PROVIDERS).map((name) => [name, first as ProxyName] as const),
  ...others.map((proxy) => ['oidc-provider', proxy] as const),
]

for (const [name, proxy] of PAIRS)
  t.test(`somebody of ${name}, through ${proxy}`, { skip: missing(name, proxy) }, async (t) => {
    const provider = (await PROVIDERS[name]?.(t)) as Provider
    const started = await startAgents(t, proxy, provider)
    const { agent, asked, browser, document, clock, gatehouse, yaml, deps } = started
    const lines = () => agent.transcript.splice(0).map((line) => line.split('?')[0])
    const { client, call } = await agent.connect(NOTES)

    await t.test('an agent that knows only the URL signs in', async (t) => {
      t.match(lines(), [
        /^POST .*\/mcp 401 Bearer realm="main", scope="notes:read", resource_metadata="[^"]+\/mcp"/,
        `GET ${RESOURCE_METADATA} 200`,
        `GET ${SERVER_METADATA} 200`,
        `browser ${ISSUER}/authorize`,
        `POST ${ISSUER}/token 200`,
        `POST ${NOTES} 200`,
      ])
      t.equal(document.asked(), 1, 'its document is read once')
      t.equal(client.getNegotiatedProtocolVersion(), '2026-07-28')
      const who = `${document.host} Calls itself Assistant`
      const wanted = ['app.example.com/mcp', 'Read your notes notes:read']
      t.same(asked.map(factsOn), [[who, new URL(CALLBACK).host, ...wanted]], 'the person is asked')
      t.match(agent.tokens(), { scope: 'notes:read', expires_in: 600 })
    })

    await t.test('a tool runs, and its server knows for whom', async (t) => {
      t.equal(await call('read_note'), 'a note')
      const seen = JSON.parse(await call('whoami'))
      t.match(seen['x-forwarded-user'], /\S/)
      const [, claims = ''] = String(seen['x-gatehouse-assertion']).split('.')
      t.match(JSON.parse(Buffer.from(claims, 'base64url').toString()), {
        method: 'agent',
        client_id: document.id,
        scope: 'notes:read',
      })
      lines()
    })

    await t.test('a tool that needs another scope: the person is asked for it', async (t) => {
      t.equal(await call('delete_note'), 'deleted')
      t.match(lines(), [
        /^POST .*\/mcp 403 Bearer .*error="insufficient_scope", .*scope="notes:read notes:write", resource_metadata=/,
        `browser ${ISSUER}/authorize`,
        `POST ${ISSUER}/token 200`,
        `POST ${NOTES} 200`,
      ])
      t.equal(asked.length, 2)
      t.same(factsOn(asked[1]!).slice(3), [
        'Read your notes notes:read Change and delete your notes notes:write',
      ])
      t.match(agent.tokens(), { scope: 'notes:read notes:write' })
    })

    await t.test('tokens are renewed without the person', async (t) => {
      const before = agent.tokens()
      await clock.advance(11 * MINUTE)
      t.equal(await call('delete_note'), 'deleted')
      t.match(lines(), [
        /^POST .*\/mcp 401 Bearer .*error="invalid_token"/,
        `POST ${ISSUER}/token 200`,
        `POST ${NOTES} 200`,
      ])
      t.not(agent.tokens()?.refresh_token, before?.refresh_token)
      t.equal(asked.length, 2)
    })

    await t.test('what the person ends is refused at once, at all instances', async (t) => {
      const other = await startGatehouse(t, yaml, undefined, deps)
      const { access_token: token = '' } = agent.tokens() ?? {}
      const statusAt = async ({ check }: typeof other) => {
        const call = {
          'X-Forwarded-Uri': '/mcp',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/call',
          'mcp-name': 'read_note',
        }
        const headers = { ...call, authorization: `Bearer ${token}` }
        return (await check(SHAPES[0]!, headers)).statusCode
      }
      for (const each of [gatehouse, other]) t.equal(await statusAt(each), 200)

      const account = await browser.open(ACCOUNT)
      const agents = named(account.body, 'li').filter((one) => text(one).includes(document.host))
      t.equal(agents.length, 1, 'before and after the step up')
      let page = account
      while (text(named(page.body, 'main')[0]!).includes(document.host))
        page = await browser.press(page, 'Disconnect', { words: document.host })
      t.equal(await statusAt(gatehouse), 401)
      // It asks the store every second, by its clock.
      await clock.advance(SECOND)
      await until(async () => (await statusAt(other)) === 401)

      t.equal(await call('read_note'), 'a note')
      t.match(lines(), [
        /^POST .*\/mcp 401 Bearer .*error="invalid_token"/,
        `POST ${ISSUER}/token 400`,
        `browser ${ISSUER}/authorize`,
        `POST ${ISSUER}/token 200`,
        `POST ${NOTES} 200`,
      ])
      t.equal(asked.length, 3, 'it comes back only if they are asked, and allow it')
    })
  })

t.test('a person who may not call a tool is not asked to allow it', async (t) => {
  const { issuer, people } = await startSessionProvider(t)
  people.set('alice', { ...people.get('alice'), groups: ['staff'] })
  const options = { type: 'openIDConnect', issuerUrl: issuer, ...client }
  const { agent, asked } = await startAgents(t, 'nginx', { options })
  const { call } = await agent.connect(NOTES)
  t.equal(await call('read_note'), 'a note')
  await t.rejects(call('delete_note'), /403/)
  t.equal(asked.length, 1, 'no scope would help them')
  t.equal(await call('read_note'), 'a note', 'the rest stays')
})

t.test('a client without a document registers itself, where that is configured', async (t) => {
  const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
  const changes = { portal: { authorizationServer: { registration: true } }, isUnknown: true }
  const { agent, asked, document } = await startAgents(t, 'nginx', provider, changes)
  const { call } = await agent.connect(NOTES)
  t.equal(await call('read_note'), 'a note')
  t.match(agent.transcript, [/401/, /GET/, /GET/, `POST ${ISSUER}/register 201`])
  const [answerGoesTo, who] = factsOn(asked[0]!)
  t.equal(answerGoesTo, new URL(CALLBACK).host, 'what is proven comes first')
  t.match(who, /^Calls itself Assistant$/)
  t.equal(document.asked(), 0)
})

t.test('policies see the agent, and its person', async (t) => {
  const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
  const policies = {
    agents: 'caller.method == "agent" && Group("editors")',
    stranger: 'caller.claims.client_id == "https://other.example/client.json"',
  }
  const hosts = ['app.example.com']
  const rules = [
    { hosts, tools: ['delete_note'], require: 'stranger' },
    { hosts, tools: ['*'], require: 'agents' },
  ]
  const { agent } = await startAgents(t, 'nginx', provider, { portal: { policies, rules } })
  const { call } = await agent.connect(NOTES)
  t.equal(await call('read_note'), 'a note')
  await t.rejects(call('delete_note'), /403/)
})

for (const name of Object.keys(PROVIDERS))
  t.test(`without somebody of ${name}`, { skip: missing(name, first as ProxyName) }, async (t) => {
    const provider = (await PROVIDERS[name]?.(t)) as Provider
    const { agent, browser, clock } = await startAgents(t, first as ProxyName, provider, {
      lifetime: '30d',
      portal: { session: { lifetime: '30m', refresh: '10m' } },
    })
    const { call } = await agent.connect(NOTES)
    t.equal(await call('read_note'), 'a note')
    await browser.press(await browser.open(`${ISSUER}/logout`), 'Sign out')
    const before = agent.transcript.filter((line) => line.startsWith('browser')).length
    for (let minutes = 0; minutes < 50; minutes += 5) {
      await clock.advance(5 * MINUTE)
      t.equal(await call('read_note'), 'a note', `after ${minutes + 5} minutes`)
    }
    const after = agent.transcript.filter((line) => line.startsWith('browser')).length
    t.equal(after, before, 'nobody is asked')
  })
