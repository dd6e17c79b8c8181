import t from 'tap'
import {
  AUDIENCE,
  startTokenIssuer,
} from '../../../../packages/identity-providers/test/stand-ins/token-issuer.ts'
import { readDocument, tableRows } from '../../../../scripts/test/markdown.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { VERSION } from '../helpers/mcp-requests.ts'
import { SHAPES, type Shape } from '../shapes.ts'

const SHAPE = SHAPES.find(({ proxy }) => proxy.startsWith('traefik')) as Shape
const KEY = 'correct-horse-battery-staple'

/** A person about whom a provider says everything. */
const PERSON = {
  ...{ name: 'Ada Lovelace', given_name: 'Ada', family_name: 'Lovelace' },
  ...{ preferred_username: 'ada.l', picture: 'https://example.com/ada.png' },
  ...{ email: 'ada@example.com', email_verified: true, groups: ['staff'], roles: ['oncall'] },
  ...{ auth_time: 1_893_450_000, acr: 'mfa', amr: ['pwd', 'otp'], department: 'R&D' },
}

/** The table of the guide: what it says of each claim. */
function documented() {
  const { prose } = readDocument('docs/auth-core.md')
  const start = prose.indexOf('### The claims of an assertion')
  const end = prose.findIndex((line, index) => index > start && /^#+ /.test(line))
  return tableRows(prose.slice(start, end)).map(([claim = '', type = '', , absent = '']) => ({
    claim: claim.replaceAll('`', ''),
    type,
    absent,
  }))
}

function typeOf(value: unknown): string {
  if (!Array.isArray(value)) return typeof value
  return `list of ${[...new Set(value.map((entry) => typeof entry))].join(' or ')}s`
}

t.test(
  'the guide has each claim of an assertion, with its type and when it is absent',
  async (t) => {
    expectWarnings(t, 'more groups than fit into headers')
    const issuer = await startTokenIssuer(t)
    const options = {
      assertion: { hosts: ['app.example.com'], claims: ['department'] },
      callers: {
        keys: [{ name: 'backup', key: KEY, hosts: ['app.example.com'], scopes: ['read', 'write'] }],
        issuers: [
          { name: 'ci', issuerUrl: issuer.origin, audience: AUDIENCE, hosts: ['app.example.com'] },
        ],
      },
      policies: { staff: 'Group("staff")' },
      rules: [
        { hosts: ['app.example.com'], paths: ['/mcp'], tools: ['delete_*'], require: 'staff' },
      ],
    }
    const texts = Object.entries(options).map(
      ([name, value]) => `${name}: ${JSON.stringify(value)}`,
    )
    const { check, signIn } = await startApp(t, yamlOf(portalOf('main', texts.join(', '))))
    const assertionOf = async (headers: Record<string, string>) => {
      const answer = await check(SHAPE, {
        ...{ Accept: 'application/json', 'X-Forwarded-Method': 'POST' },
        ...headers,
      })
      t.equal(answer.statusCode, 200, answer.body)
      const [, claims = ''] = String(answer.headers['x-gatehouse-assertion']).split('.')
      return JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown>
    }
    const call = {
      ...{ 'X-Forwarded-Uri': '/mcp', 'Mcp-Protocol-Version': VERSION, 'Mcp-Method': 'tools/list' },
    }
    const groups = Array.from({ length: 150 }, (_, i) => `group-${i}-of-the-firm`)
    const cookie = await signIn('main', PERSON)
    const token = issuer.issue({ sub: 'ci', client_id: 'robot', scope: 'read' })
    const assertions = {
      person: await assertionOf({ Cookie: cookie, ...call }),
      nameless: await assertionOf({ Cookie: await signIn('main') }),
      crowded: await assertionOf({ Cookie: await signIn('main', { ...PERSON, groups }) }),
      key: await assertionOf({ Authorization: `APIKey ${KEY}` }),
      token: await assertionOf({ Authorization: `Bearer ${token}` }),
    }

    const rows = documented()
    const all = new Map(Object.values(assertions).flatMap((claims) => Object.entries(claims)))
    all.delete('department')
    t.strictSame(
      rows.map(({ claim, type }) => [claim, type]).sort(),
      [...all].map(([claim, value]) => [claim, typeOf(value)]).sort(),
    )
    const absent = (kind: keyof typeof assertions) =>
      rows.filter(({ claim }) => !(claim in assertions[kind])).map(({ claim }) => claim)
    const documentedAs = (...texts: RegExp[]) =>
      rows.filter(({ absent }) => texts.some((text) => text.test(absent))).map(({ claim }) => claim)
    const NOT_HERE = [/^if nothing is left out/, /^if the request is no MCP call/]
    const OF_PERSON = [/^if the provider does not say it/, /^without `email`/, /^if there are none/]
    const OF_PROGRAM = [...OF_PERSON, /^for programs with a key or token of their own/, ...NOT_HERE]
    t.strictSame(absent('person'), documentedAs(/^for people/, /^if nothing is left out/))
    t.strictSame(absent('nameless'), documentedAs(...OF_PERSON, /^for people/, ...NOT_HERE))
    t.strictSame(absent('crowded'), ['groups', 'scope', 'client_id', 'tools'])
    t.strictSame(absent('token'), documentedAs(...OF_PROGRAM))
    const OF_KEY = [/^for programs with an API key/, /^for people and API keys/]
    t.strictSame(absent('key'), documentedAs(...OF_PROGRAM, ...OF_KEY))
    for (const claims of Object.values(assertions))
      for (const claim of documentedAs(/^never$/)) t.ok(claim in claims, claim)
  },
)
