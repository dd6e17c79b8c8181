import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { type ExplainOptions, explain } from '../../src/cli/explain.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { portalOf, yamlOf } from '../app.ts'

const NOW = Date.UTC(2030, 0, 1)
const PORTAL = portalOf(
  'main',
  `allow: { groups: [staff] }, policies: {
    admin: 'Group("staff") && Group("admin")', strong: { acr: [mfa] } }, rules: [
    { paths: [/healthz], require: anyone },
    { hosts: [admin.example.com], require: admin },
    { from: [10.0.0.0/8], paths: [/lan/*], require: anyone },
    { paths: [/vault/*], require: strong },
    { hosts: [mcp.example.com], paths: [/tools], tools: ["read_*"], require: signedIn },
    { hosts: [mcp.example.com], paths: [/tools], tools: [delete], require: admin }],
    callers: { keys: [{ name: ci, key: correct-horse-battery-staple, hosts: [app.example.com] },
      { name: admins, key: correct-horse-battery-stapler, policies: [admin] }] },
    resources: [{ url: "https://app.example.com/mcp", authorizationServers: ["https://id.example.com"] }]`.replace(
    /\s+/g,
    ' ',
  ),
)
const CLAIMS = {
  ada: { sub: 'ada', groups: ['staff', 'admin'], acr: 'pwd' },
  bob: { sub: 'bob', groups: ['staff'] },
  eve: { sub: 'eve' },
}

async function ask(t: Test, who: keyof typeof CLAIMS | undefined, asked: Partial<ExplainOptions>) {
  const folder = testFolder(t, {
    'config.yaml': yamlOf(PORTAL),
    'claims.json': JSON.stringify(who && CLAIMS[who]) ?? '',
  })
  const { value } = await loadForwardAuthConfig(`${folder}/config.yaml`, {})
  const person = who && { as: `${folder}/claims.json` }
  const text = await explain(value, { host: 'app.example.com', ...person, ...asked }, NOW)
  return text.split('\n')
}

t.test('which rule, policy and clause decides, and why', async (t) => {
  const table: [
    who: keyof typeof CLAIMS | undefined,
    asked: Partial<ExplainOptions>,
    ...lines: string[],
  ][] = [
    [
      undefined,
      {},
      'rules: none fits',
      'demanded: a session or a program',
      'purpose: signedIn',
      'admitted: people whom the portal allows; programs: ci',
      'who: nobody is signed in',
      'decision: a browser is sent to sign in; a program gets 401',
    ],
    [
      undefined,
      { path: '/healthz?x=1' },
      'rules[0]: fits: anyone',
      'demanded: nothing',
      'purpose: anyone',
      'admitted: anyone',
      'decision: passes, without an identity',
    ],
    [
      'bob',
      { host: 'admin.example.com', path: '/x' },
      'rules[0]: does not fit (paths)',
      'rules[1]: fits: admin',
      'demanded: a session or a program, admin',
      'who: corp:bob, groups: staff, roles: none',
      'decision: 403, refused by policy admin, because this is not true: Group("admin")',
    ],
    ['ada', { host: 'admin.example.com' }, 'decision: passes, with the identity of the person'],
    [
      'eve',
      {},
      'decision: 403, refused by allow, because this is not true: groups: staff (no groups came)',
    ],
    [
      'ada',
      { path: '/vault/x' },
      'rules[3]: fits: strong',
      'decision: sent to sign in again, for strong: acr or maxAge is not met',
    ],
    [
      undefined,
      { path: '/lan/x', from: '10.1.2.3' },
      'rules[2]: fits: anyone',
      'decision: passes, without an identity',
    ],
    [
      undefined,
      { path: '/lan/x' },
      'rules[2]: may fit (from): anyone',
      'purpose: not known, since an earlier rule may fit',
    ],
    [
      undefined,
      { path: '/healthz%2Fx' },
      'path: known up to /healthz, as apps do not agree about the rest',
      'rules[0]: may fit (paths): anyone',
      'rules[3]: does not fit (paths)',
    ],
    [
      undefined,
      { path: '/healthz/../x' },
      'path: known up to /, as apps do not agree about the rest',
      'demanded: a session or a program, strong',
    ],
    [
      undefined,
      { path: '/mcp/x', policy: 'admin' },
      'purpose: admin',
      'admitted: people whom the portal allows; programs: ci, admins; tokens for https://app.example.com/mcp',
    ],
    ['bob', { policy: 'admin' }, 'demanded: a session or a program, admin'],
    [
      undefined,
      { path: '/healthz', policy: 'any' },
      'demanded: nothing',
      'purpose: anyone',
      'admitted: anyone',
      'decision: passes, without an identity',
    ],
    [
      'bob',
      { if: 'Group("ops")' },
      'demanded: a session or a program, ?if=Group("ops")',
      'decision: 403, refused by policy ?if=, because this is not true: Group("ops")',
    ],
    [
      'bob',
      { host: 'mcp.example.com', path: '/tools', tool: 'read_note' },
      'POST https://mcp.example.com/tools, tools/call read_note, at the portal main',
      'rules[4]: fits: signedIn',
      'decision: passes, with the identity of the person',
    ],
    [
      'bob',
      { host: 'mcp.example.com', path: '/tools', tool: 'delete' },
      'rules[4]: does not fit (tools)',
      'rules[5]: fits: admin',
      'decision: 403, refused by policy admin, because this is not true: Group("admin")',
    ],
    [
      'ada',
      { host: 'mcp.example.com', path: '/tools', tool: 'write' },
      'rules: none fits',
      'demanded: a rule for this call, since rules name tools here',
      'admitted: nobody',
      'decision: 403, refused by tools',
    ],
    [
      'bob',
      { host: 'mcp.example.com', path: '/tools', tool: 'read_note', method: 'GET' },
      'rules[4]: may fit (tools): signedIn',
      'decision: 403, refused by tools',
    ],
    [
      'ada',
      { host: 'mcp.example.com', path: '/tools' },
      'rules[4]: may fit (tools): signedIn',
      'decision: 403, refused by tools',
    ],
  ]
  for (const [who, asked, ...lines] of table) {
    const answer = await ask(t, who, asked)
    for (const line of lines) t.ok(answer.includes(line), `${line}\n${answer.join('\n')}`)
  }
})

t.test('what cannot be asked', async (t) => {
  const table: [asked: Partial<ExplainOptions>, message: RegExp][] = [
    [{ host: 'a b' }, /--host is no host/],
    [{ path: 'x' }, /--path must begin with/],
    [{ from: '10.0.0.0/8' }, /--from is no IP address/],
    [{ portal: 'nope' }, /there is no portal nope, only: main/],
    [{ policy: 'a', if: 'true' }, /give --policy or --if/],
    [{ provider: 'nope', as: '/dev/null' }, /has no provider nope/],
    [{ as: '/dev/null' }, /holds no JSON object of claims/],
  ]
  for (const [asked, message] of table)
    await t.rejects(ask(t, undefined, asked), { message }, JSON.stringify(asked))
  await t.rejects(ask(t, undefined, { policy: 'nope' }), { code: 'FWA_POLICY_UNKNOWN' })
})

t.test('claims are read as the row of the provider says', async (t) => {
  const row = `{ type: openIDConnect, name: corp, issuerUrl: "http://localhost:1", clientId: a, clientSecret: b,
    groupsClaim: realm.roles, trustEmail: true }`
  const portal = `  - { name: main, allow: { groups: [staff], emailDomains: [example.com] }, providers: [${row}] }`
  const claims = { sub: 'ada', email: 'ada@example.com', realm: { roles: ['staff'] } }
  const folder = testFolder(t, {
    'config.yaml': yamlOf(portal.replace(/\s+/g, ' ').replace(/^ /, '  ')),
    'claims.json': JSON.stringify(claims),
  })
  const { value } = await loadForwardAuthConfig(`${folder}/config.yaml`, {})
  const asked = { host: 'app.example.com', as: `${folder}/claims.json` }
  const text = await explain(value, asked, NOW)
  t.match(text, 'who: corp:ada, groups: staff')
  t.match(text, 'decision: passes, with the identity of the person')
})
