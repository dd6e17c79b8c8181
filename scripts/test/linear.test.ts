import { parseEndpointUrl, parseHost, parseStrictJson } from '@gatehouse/net'
import { fromPem, parseName } from '@gatehouse/pki'
import { compileCondition } from '@gatehouse/profile'
import { parsePostgresUrl } from '@gatehouse/store'
import t from 'tap'
import { linksOf } from '../../packages/acme/src/protocol/request.ts'
import { readRequest } from '../../packages/acme/src/server/index.ts'
import { foldName } from '../../packages/gate/src/header-names.ts'
import { readAssignments, readFlags } from '../../packages/migrate/src/formats.ts'
import { readAll } from '../../packages/pki/src/der.ts'
import { parseSearch } from '../../services/cert-service/src/inventory/search.ts'
import { splitTarget } from '../../services/forward-auth/src/session/hop.ts'
import {
  isDoubled,
  readCookie,
  readCookies,
  withoutSessionCookies,
} from '../../services/forward-auth/src/web/cookies.ts'
import { expressionsOf, slowness } from './expressions.ts'
import { workOf } from './work.ts'

t.test('finds what takes more than linear time, and nothing else', async (t) => {
  const slow = [
    '^\\s*\\.*\\s*$',
    '\\/+$',
    '[/?#].*$',
    '^(a+)+$',
    '^([a-z]+):(.*?)\\s*$',
    'https:\\/\\/\\S*unpause',
    '(no such|unknown).*certificate',
    '"""(?:[^\\\\]|\\\\.)*?"""',
    'eyJ[\\w-]{5,}\\.[\\w-]+',
  ]
  for (const source of slow) t.type(slowness({ source, flags: '' }), 'string', source)
  const linear = [
    '^[a-z]+$',
    '^\\s*[.]',
    '"code":"(\\w+)"',
    '\\/portals?\\/[^/]+\\/(?:signin|providers)',
    '\\s+',
    '-----BEGIN [A-Z ]{1,40}-----([A-Za-z\\s]*)-----END',
    '(?<![\\w-])eyJ[\\w-]{5,}\\.',
  ]
  for (const source of linear) t.equal(slowness({ source, flags: '' }), undefined, source)
  t.equal(slowness({ source: '\\/+$', flags: 'y' }), undefined, 'one place')
})

t.test('every expression that reads anything takes linear time', async (t) => {
  const expressions = expressionsOf('{packages,services}/*/src/**/*.ts')
  t.ok(expressions.length > 300)
  const unknown = expressions.filter(({ source }) => source === undefined)
  // The pattern of a schema, which is among the others.
  t.strictSame(
    unknown.map(({ at }) => at.split(':')[0]),
    ['packages/service-kit/src/config/reader.ts'],
  )
  const checked = new Map<string, string | undefined>()
  for (const { at, source = '', flags } of expressions) {
    const key = `/${source}/${flags}`
    if (!checked.has(key)) checked.set(key, slowness({ source, flags }))
    const found = checked.get(key)
    if (found) t.fail(`${at}: ${key}: ${found}`)
  }
})

/** A text of so many parts. */
type Input = (parts: number) => string

const repeated =
  (part: string, begin = '', end = ''): Input =>
  (parts) =>
    begin + part.repeat(parts) + end

const ignored = (read: (text: string) => unknown) => (text: string) => {
  try {
    read(text)
  } catch {
    // Most of what is made up here is refused.
  }
}
const COOKIE = '__Secure-gatehouse-app.main'

/** What code of ours reads, beside its expressions, and what would take it longest. */
const READERS: readonly (readonly [string, (text: string) => unknown, ...Input[]])[] = [
  [
    'cookies',
    (text) => {
      readCookies(text, COOKIE)
      isDoubled(text, COOKIE)
      withoutSessionCookies(text)
      readCookie(text, 'own')
    },
    repeated('; '),
    repeated('a=b; '),
    repeated(`${COOKIE}=a.b.c; `),
    repeated(COOKIE),
    repeated('own="', '', ';'),
  ],
  [
    'targets',
    splitTarget,
    repeated('gatehouse-ticket=a&', '/?'),
    repeated('gatehouse-ticket', '/?'),
    repeated('&', '/?gatehouse-ticket='),
  ],
  [
    'JSON of strangers',
    (text) => ignored((one) => parseStrictJson(Buffer.from(one)))(text),
    repeated('\\\\', '"', '"'),
    repeated('\\"', '"', '"'),
    repeated('{"a":', '', '1'),
    repeated('"a":1,', '{', '"b":1}'),
    repeated('["a":"'),
  ],
  [
    'requests of ACME clients',
    (text) => ignored((one) => readRequest(Buffer.from(one)))(text),
    repeated('A', '{"protected":"', '"}'),
    repeated('"protected":"e30",', '{', '"payload":""}'),
  ],
  ['names of headers', foldName, repeated('X_-~'), repeated('.')],
  [
    'conditions',
    (text) => ignored(compileCondition)(text),
    repeated('"""\\'),
    repeated('`a` + '),
    repeated("'a"),
    repeated('a && ', '', 'a'),
    repeated('// x\n'),
  ],
  ['hosts', ignored(parseHost), repeated('a.'), repeated(':'), repeated('0'), repeated('-')],
  ['addresses of endpoints', ignored(parseEndpointUrl), repeated('/a', 'https://a'), repeated('@')],
  ['URLs of databases', ignored(parsePostgresUrl), repeated('a,', 'postgres://a@', '/b')],
  ['PEM', ignored(fromPem), repeated('-----BEGIN A-----\n'), repeated(' \n', '-----BEGIN A-----')],
  ['names of certificates', ignored(parseName), repeated('a.'), repeated('*.'), repeated('xn--')],
  [
    'searches',
    ignored(parseSearch),
    repeated('/?'),
    repeated('00'),
    repeated('00:'),
    repeated('a://'),
  ],
  ['settings of others', ignored(readFlags), repeated('--a="b" \\\n'), repeated('-- ')],
  [
    'assignments of others',
    (text) => ignored((one) => readAssignments(one, 'x'))(text),
    repeated('a = b\n'),
  ],
  [
    'links',
    (text) =>
      ignored(() =>
        linksOf(
          {
            url: new URL('https://ca.test'),
            status: 200,
            headers: { link: text },
            body: Buffer.of(),
          },
          'up',
        ),
      )(text),
    repeated('<a>;rel="up",'),
    repeated('<'),
    repeated('<a>;rel=', '', ','),
  ],
  [
    'DER',
    (text) => ignored(() => readAll(Buffer.from(text, 'hex')))(text),
    repeated('0500'),
    repeated('30'),
  ],
]

t.test('twice the input is twice the work for every reader', async (t) => {
  for (const [what, read, ...inputs] of READERS)
    for (const [n, input] of inputs.entries()) {
      // What is compiled or loaded once does not count.
      read(input(3))
      const [once, twice] = [400, 800].map((parts) => workOf(() => read(input(parts))))
      t.ok((twice ?? 0) <= 2.2 * (once ?? 0) + 50, `${what} ${n}: ${once}, ${twice}`)
    }
})
