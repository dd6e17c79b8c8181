import { parseHost } from '@gatehouse/net'
import t, { type Test } from 'tap'
import { Gate } from '../src/gate.ts'
import type { GateConfig } from '../src/options.ts'
import { compilePath, readPath } from '../src/paths.ts'
import { resourceAt } from '../src/programs.ts'

const KEY = 'correct-horse-battery-staple'
const HOST = parseHost('auth.example.com')!

function gateOf(t: Test, row: object) {
  const key = { name: 'ci', key: KEY, basic: false, scopes: ['end'], ...row }
  const config = {
    name: 'main',
    providers: [{ name: 'corp' }],
    policies: { admin: 'Group("admin")' },
    headers: [],
    headerEncoding: 'percent',
    callers: { keys: [key], issuers: [] },
    resources: [],
    rules: [],
    preflight: false,
  } as GateConfig
  const log = { info() {}, warn() {} }
  const gate = new Gate(config, { now: () => 0, elapsed: () => 0, log })
  t.teardown(() => gate.close())
  return gate
}

function requestOf(authorization?: string) {
  const headers = authorization === undefined ? {} : { authorization }
  return { headers, raw: { headers, rawHeaders: Object.entries(headers).flat() } } as never
}

t.test('nobody learns who a program is without asking what it may', async (t) => {
  const gate = gateOf(t, { hosts: ['auth.example.com'] })
  // @ts-expect-error: it gives a program and no decision
  t.type(gate.programs.find, 'function')
  type Row = [row: object, authorization: string | undefined, outcome: string, reason?: string]
  const rows: Row[] = [
    [{ hosts: ['auth.example.com'] }, `APIKey ${KEY}`, 'allow'],
    [{ hosts: ['*.example.com'] }, `APIKey ${KEY}`, 'allow'],
    [{ hosts: ['app.example.com'] }, `APIKey ${KEY}`, 'forbidden', 'hosts'],
    [{ policies: ['admin'] }, `APIKey ${KEY}`, 'forbidden', 'policies'],
    [{ hosts: ['auth.example.com'] }, undefined, 'no-session'],
    [{ hosts: ['auth.example.com'] }, 'Bearer of-somebody-else', 'no-session'],
  ]
  for (const [row, authorization, outcome, reason] of rows) {
    const asked = gateOf(t, row).checkProgram(requestOf(authorization), HOST, 'end', 0)
    const decision = { outcome, ...(reason && { refusal: { reason } }) }
    t.match(await asked, { decision }, `${reason}`)
  }
  await t.rejects(gate.checkProgram(requestOf('APIKey wrong'), HOST, 'end', 0), {
    code: 'AUTH_KEY_INVALID',
  })
})

t.test('a path belongs to the resource with the longest URL, if that is certain', async (t) => {
  const origin = 'https://app.example.com'
  const resources = ['/mcp', '/mcp/notes', ''].map((path) => {
    return { url: origin + path, origin, paths: compilePath(`${path}/*`) }
  })
  const rows: [origin: string, target: string, url: string | undefined][] = [
    [origin, '/mcp', `${origin}/mcp`],
    [origin, '/mcp/notes/x', `${origin}/mcp/notes`],
    [origin, '/elsewhere', origin],
    [origin, '/mcp/NOTES', undefined],
    [origin, '/mcp;x', undefined],
    ['https://b.example.com', '/mcp', undefined],
  ]
  for (const [site, target, url] of rows)
    t.equal(resourceAt(resources, site, readPath(target))?.url, url, `${site}${target}`)
})
