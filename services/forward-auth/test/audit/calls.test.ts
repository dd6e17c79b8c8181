import { createMetrics } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import { startTokenIssuer } from '../../../../packages/identity-providers/test/stand-ins/token-issuer.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type {} from '../../src/audit/audit.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { SHAPES } from '../shapes.ts'

// What is refused in these tests, and said.
expectWarnings(t, 'FWA_TOOL_REFUSED', 'FWA_IDENTITY_UNSENDABLE')

const MINUTE = 60_000
const KEY = 'correct-horse-battery-staple'
const NOTES = 'https://app.example.com/mcp'

async function start(t: Test) {
  const issuer = await startTokenIssuer(t)
  const options = `
    callers: { keys: [{ name: ci, key: ${KEY}, hosts: ["*.example.com"] }] },
    policies: { staff: 'Group("staff")', strong: { maxAge: 10m }, all: 'true' },
    resources: [{ url: "${NOTES}", authorizationServers: ["${issuer.origin}"] }],
    rules: [{ paths: [/only/*], tools: ["read_*"], require: [all] }]`
  const yaml = yamlOf(portalOf('main', options.replace(/\s+/g, ' ')))
  const metrics = createMetrics({ service: 'test', version: '0' })
  const test = await startApp(t, yaml, undefined, { metrics })
  const { app } = test
  /** The rows so far. */
  async function rows() {
    await app.auditTrail.flush()
    const all: Record<string, unknown>[] = []
    for await (const row of app.authStore.audit.rows(0)) all.push({ ...row })
    return all
  }
  /** Has somebody call what the headers name, by MCP. Gives the status. */
  async function call(sent: Record<string, string>, what: Called = {}) {
    const { mcp, host = 'app.example.com', path = '/', query = '' } = what
    const [method, name] = mcp ?? []
    const headers = {
      ...{ Accept: 'application/json', 'X-Forwarded-Host': host, 'X-Forwarded-Uri': path },
      ...(method && { 'Mcp-Protocol-Version': '2026-07-28', 'Mcp-Method': method }),
      ...(name && { 'Mcp-Name': name }),
    }
    return (await test.check(SHAPES[0]!, { ...headers, ...sent }, { query })).statusCode
  }
  const counted = async () =>
    (await metrics.text())
      .match(/^gatehouse_auth_program_calls_total.*$/gm)
      ?.map((line) => line.replace('gatehouse_auth_program_calls_total', ''))
  return { ...test, issuer, rows, call, counted }
}

interface Called {
  readonly mcp?: readonly [method: string, name?: string]
  readonly host?: string
  readonly path?: string
  readonly query?: string
}

const key = { Authorization: `APIKey ${KEY}` }
const read: Called = { mcp: ['tools/call', 'read_note'] }

t.test('what a program calls has a row, and its repeats of a minute another one', async (t) => {
  const { app, clock, call, rows, log } = await start(t)
  const table: [what: Called, row: object][] = [
    [{}, { tool: undefined }],
    [read, { tool: 'read_note' }],
    [{ mcp: ['tools/call', 'delete_note'] }, { tool: 'delete_note' }],
    [{ mcp: ['resources/read', 'notes://1'] }, { tool: 'notes://1' }],
    [{ mcp: ['prompts/list'] }, { tool: 'prompts/list' }],
    [{ mcp: ['tools/call'] }, { tool: undefined, host: 'other.example.com' }],
    [
      { ...read, path: '/only' },
      { tool: 'read_note', host: 'x.example.com' },
    ],
  ]
  for (const [what, { host = 'app.example.com' }] of table as [Called, { host?: string }][])
    t.equal(await call(key, { ...what, host }), 200)
  const ofKey = { event: 'program-passed', portal: 'main', person: 'psk:ci', requestId: /./ }
  t.match(
    await rows(),
    table.map(([, row]) => ({ ...ofKey, host: 'app.example.com', ...row, count: undefined })),
  )
  t.notOk((await rows()).some((row) => 'provider' in row || 'client' in row))

  for (let i = 0; i < 5; i++) await call(key, read)
  const refused = { mcp: ['tools/call', 'delete_note'], path: '/only' } as const
  for (let i = 0; i < 3; i++) t.equal(await call(key, refused), 403)
  const ofRefused = { event: 'access-refused', code: 'FWA_TOOL_REFUSED', tool: 'delete_note' }
  t.match((await rows()).slice(table.length), [{ ...ofRefused, count: undefined }])
  await clock.advance(MINUTE)
  const [, ...repeats] = (await rows()).slice(table.length)
  const time = '2030-01-01T00:01:00.000Z'
  t.match(repeats, [
    { ...ofKey, tool: 'read_note', host: 'app.example.com', count: 5, time },
    { ...ofRefused, person: 'psk:ci', count: 2, time },
  ])
  t.equal(repeats.length, 2)

  for (let i = 0; i < 3; i++) await call(key, read)
  const { audit } = app.authStore
  await app.close()
  const last: object[] = []
  for await (const row of audit.rows(0)) last.push(row)
  t.match(last.slice(-2), [{ count: undefined }, { tool: 'read_note', count: 2 }], 'at the stop')
  const told = log.filter(({ msg }) => msg === 'access refused')
  t.match(told, [{ caller: 'psk:ci', tool: 'delete_note', refusedBy: 'tools' }])
  t.equal(told.length, 1)
  t.notOk(
    log.some(({ event }) => event === 'program-passed'),
    'who passes has no line',
  )
})

t.test('a row names the client that a token was issued to', async (t) => {
  const { issuer, call, rows } = await start(t)
  const table: [claims: object, client: string | undefined][] = [
    [{}, undefined],
    [{ client_id: 'https://agent.example/id.json' }, 'https://agent.example/id.json'],
    [{ azp: 'spa' }, 'spa'],
    [{ client_id: 'one', azp: 'other' }, 'one'],
    [{ client_id: ['one'], azp: 'c'.repeat(256) }, 'c'.repeat(256)],
    [{ client_id: '', azp: 'c'.repeat(257) }, undefined],
    [{ client_id: 'a\u001bb' }, undefined],
  ]
  for (const [i, [claims]] of table.entries()) {
    const token = issuer.issue({ aud: NOTES, sub: `robot${i}`, ...claims })
    const path = new URL(NOTES).pathname
    t.equal(await call({ Authorization: `Bearer ${token}` }, { path }), 200)
  }
  t.strictSame(
    (await rows()).map(({ client }) => client),
    table.map(([, client]) => client),
  )
})

t.test('what the app cannot be told has not passed', async (t) => {
  const { issuer, call, rows } = await start(t)
  const token = issuer.issue({ aud: NOTES, sub: 'evil\nrobot' })
  const path = new URL(NOTES).pathname
  t.equal(await call({ Authorization: `Bearer ${token}` }, { ...read, path }), 403)
  t.match(await rows(), [{ event: 'access-refused', code: 'FWA_IDENTITY_UNSENDABLE' }])
  t.equal((await rows()).length, 1)
})

t.test('people have no rows for what they are let do, and one per hour for the rest', async (t) => {
  const { clock, call, rows, signIn } = await start(t)
  const cookie = { Cookie: await signIn('main') }
  t.equal(await call(cookie, read), 200)
  for (let i = 0; i < 3; i++) {
    t.equal(await call(cookie, { ...read, query: '?policy=staff' }), 403)
    await clock.advance(MINUTE)
  }
  const all = await rows()
  t.match(all, [{ event: 'access-refused', person: 'corp:ada' }])
  t.equal(all.length, 1)
})

t.test('calls of programs are counted by resource and outcome', async (t) => {
  const { issuer, call, counted, reload, signIn } = await start(t)
  const token = { Authorization: `Bearer ${issuer.issue({ aud: NOTES })}` }
  const path = new URL(NOTES).pathname
  for (let i = 0; i < 2; i++) t.equal(await call(token, { ...read, path }), 200)
  t.equal(await call(token, { path, query: '?policy=staff' }), 403)
  t.equal(await call(token, { path, query: '?policy=strong' }), 401)
  t.equal(await call(key), 200)
  t.equal(await call({ Authorization: 'APIKey wrong-wrong-wrong-wrong' }), 401, 'is nobody')
  t.equal(await call({ Cookie: await signIn('main') }), 200, 'is a person')
  const line = (resource: string, outcome: string, count: number) =>
    `{portal="main",resource="${resource}",outcome="${outcome}"} ${count}`
  const expected = [
    ...[line(NOTES, 'allow', 2), line(NOTES, 'forbidden', 1), line(NOTES, 'step-up', 1)],
    ...[line('none', 'allow', 1), line('none', 'forbidden', 0), line('none', 'step-up', 0)],
  ]
  t.strictSame((await counted())?.toSorted(), expected.toSorted())
  const added = `resources: [{ url: "https://new.example.com/mcp", authorizationServers: ["${issuer.origin}"] }]`
  await reload(yamlOf(portalOf('main', added)))
  const lines = (await counted())?.filter((text) => text.includes('new.example.com'))
  t.equal(lines?.length, 3, 'a new resource begins at 0')
})
