import { Writable } from 'node:stream'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import {
  AUDIENCE,
  startTokenIssuer,
} from '../../../../packages/identity-providers/test/stand-ins/token-issuer.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, type RequestHeaders, SHAPES, type Shape } from '../shapes.ts'

const KEY = 'correct-horse-battery-staple'

/** What nobody may find in a log, in a form that no expression for secrets knows. */
const CANARY = 'canary7of7what7was7sent'
const TICKET = `gatehouse-ticket=${CANARY}.${CANARY}`

async function start(t: Test, level = 'trace') {
  const issuer = await startTokenIssuer(t)
  const options = `policies: { staff: 'Group("staff")' }, headers: [default, { name: X-Login, claim: login }],
    callers: {
      keys: [{ name: ci, key: ${KEY}, hosts: [app.example.com], basic: true }],
      issuers: [{ name: corp-ci, issuerUrl: "${issuer.origin}", audience: "${AUDIENCE}", hosts: [app.example.com] }] },
    rules: [{ paths: [/admin/*], require: staff }, { hosts: [mcp.example.com], tools: [read], require: staff }]`
  const written: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      written.push(String(chunk))
      done()
    },
  })
  const log = createLogger({ name: 'test', level, format: 'json', stream })
  const yaml = yamlOf(portalOf('main', options.replace(/\s+/g, ' ')))
  const test = await startApp(t, yaml, undefined, { log })
  return { ...test, issuer, written }
}

/** What a client may send with any request. */
const EVERYWHERE: RequestHeaders = {
  Cookie: `__Host-gatehouse-app.main=${CANARY}; __Host-gatehouse-hop.main.01234567=${CANARY}; a=${CANARY}`,
  Referer: `https://app.example.com/?a=${CANARY}`,
  'X-Api-Key': CANARY,
  'X-Odd': CANARY,
  Forwarded: `for=${CANARY}`,
}

/** A request of Traefik as another proxy sends it. */
function spelled(shape: Shape, headers: RequestHeaders): [Shape, RequestHeaders] {
  const { 'X-Forwarded-Uri': target = '', 'X-Forwarded-Host': host = 'app.example.com' } = headers
  if (shape.proxy.includes('nginx'))
    return [shape, { ...headers, 'X-Original-URL': `https://${host}${target}` }]
  if (!shape.proxy.startsWith('envoy')) return [shape, headers]
  // A request line has neither.
  const path = target.replaceAll(' ', '%20').replace(/#.*/, '')
  return [
    { ...shape, path: `/authz/envoy/policy/any${path}` },
    { ...headers, Host: host },
  ]
}

t.test('no line about a check holds a query, a ticket, a cookie or credentials', async (t) => {
  const { check, signIn, issuer, written } = await start(t)
  const own = await signIn('main', { login: 'psk:ci' })
  const uri = (path: string, end = `?a=${CANARY}&${TICKET}`) => ({
    'X-Forwarded-Uri': `${path}${end}`,
  })
  const as = (authorization: string) => ({ Authorization: authorization, Accept: '*/*' })
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  const table: [code: string, headers: RequestHeaders, query?: string][] = [
    ['FWA_HEADER_INVALID', uri('/a b')],
    ['FWA_HEADER_INVALID', uri('/a\\b')],
    ['FWA_HEADER_INVALID', uri('/a', `?${CANARY} ${TICKET}`)],
    ['FWA_HEADER_INVALID', uri('/a', `#${CANARY}`)],
    ['FWA_HEADER_INVALID', uri(`/${'a'.repeat(400)} `)],
    ['FWA_HEADER_INVALID', { ...uri('/a'), 'X-Forwarded-Method': `GET ${CANARY}` }],
    ['FWA_HEADER_INVALID', { ...uri('/a'), 'X-Forwarded-Proto': 'gopher' }],
    ['FWA_HEADER_INVALID', { ...uri('/a'), 'X-Forwarded-Host': '' }],
    ['FWA_HEADER_ALIAS', { ...uri('/a'), X_Forwarded_User: CANARY }],
    ['FWA_HOST_UNKNOWN', { ...uri('/a'), 'X-Forwarded-Host': 'evil.test' }],
    ['FWA_HOST_RESERVED', { ...uri('/a'), 'X-Forwarded-Host': 'auth.example.com' }],
    ['FWA_CONDITION_HEADER', { ...uri('/a', `?${CANARY}`), 'X-Forward-Auth-If': CANARY }],
    ['FWA_APP_INSECURE', { ...uri('/a', `?${CANARY}`), ...BROWSER, 'X-Forwarded-Proto': 'http' }],
    ['"status":302', { ...uri('/a'), ...BROWSER }],
    ['FWA_NO_SESSION', uri('/a', `?${CANARY}`)],
    ['FWA_NO_SESSION', uri('/a')],
    ['FWA_FORBIDDEN', { ...uri('/admin/a', `?${CANARY}`), Cookie: `${own}; a=${CANARY}` }],
    ['FWA_IDENTITY_UNSENDABLE', { ...uri('/a', `?${CANARY}`), Cookie: own }],
    [
      'FWA_TOOL_REFUSED',
      { ...uri('/a', `?${CANARY}`), ...as(`APIKey ${KEY}`), 'X-Forwarded-Host': 'mcp.example.com' },
    ],
    [
      'FWA_FORBIDDEN',
      { ...uri('/a', `?${CANARY}`), ...as(`APIKey ${KEY}`), 'X-Forwarded-Host': 'b.example.com' },
    ],
    ['AUTH_KEY_INVALID', as(`APIKey ${CANARY}`)],
    ['AUTH_KEY_INVALID', as(basic(`ci:${CANARY}`))],
    ['AUTH_HEADER_INVALID', as(`Bearer ${KEY}`)],
    ['AUTH_HEADER_INVALID', as('APIKey')],
    ['FWA_NO_SESSION', as(`Bearer ${issuer.issue({ login: CANARY })}${CANARY}`)],
    ['AUTH_', as(`Bearer ${issuer.issue({ aud: 'another', login: CANARY })}`)],
    ['AUTH_', as(`Bearer ${issuer.issue({ exp: 2 })}`)],
    ['FWA_POLICY_UNKNOWN', { ...uri('/a', `?${CANARY}`), Cookie: own }, '?policy=none'],
  ]
  for (const shape of SHAPES)
    for (const [code, headers, query = ''] of table) {
      const before = written.length
      const own = {
        'X-Forwarded-Method': 'GET',
        ...uri('/a', `?${CANARY}`),
        ...EVERYWHERE,
        ...headers,
      }
      const { body } = await check(...spelled(shape, own), { query })
      const said = body + written.slice(before).join('')
      // The others do not name all of these requests, or in another way.
      if (shape === SHAPES[0])
        t.match(said, code, `${code}: ${JSON.stringify(headers).slice(0, 90)}`)
    }
  const lines = written.join('').trim().split('\n')
  t.ok(lines.length > 60)
  t.strictSame(
    lines.filter((line) => line.includes(CANARY)),
    [],
  )
  t.strictSame(
    lines.filter((line) => line.includes(KEY)),
    [],
  )
  const texts = lines.flatMap((line) => Object.values(JSON.parse(line) as Record<string, unknown>))
  const long = texts.filter((text) => typeof text === 'string' && text.length > 350)
  t.strictSame(long, [], 'nor much of what was sent')
})

t.test('a wrong key has one line, and one in a minute', async (t) => {
  const { check, written, clock } = await start(t, 'info')
  const guess = (number: number, from = '203.0.113.7') =>
    check(SHAPES[0]!, {
      Authorization: `APIKey guess-guess-guess-${number}`,
      'X-Forwarded-For': from,
    })
  /** Those of requests, since the last look. */
  const lines = () =>
    written
      .splice(0)
      .map((line) => JSON.parse(line))
      .filter(({ reqId }) => reqId !== undefined)
  for (let number = 0; number < 50; number++) t.equal((await guess(number)).statusCode, 401)
  t.match(lines(), [
    {
      ...{ msg: 'caller refused', code: 'AUTH_KEY_INVALID', portal: 'main' },
      ...{ host: 'app.example.com', clientAddress: '203.0.113.7' },
    },
  ])
  await guess(1, '203.0.113.8')
  t.match(lines(), [{ clientAddress: '203.0.113.8' }], 'another client')
  await clock.advance(60_000)
  await guess(1)
  t.match(lines(), [{ msg: 'caller refused', clientAddress: '203.0.113.7' }])
})
