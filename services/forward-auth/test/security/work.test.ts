import fc from 'fast-check'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { wholeWorkOf } from '../../../../scripts/test/work.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, type RequestHeaders, SHAPES, type Shape } from '../shapes.ts'

// Much of what is sent here is refused.
expectWarnings(t, 'check refused')

const KEY = 'correct-horse-battery-staple'
const CALLERS = `callers: { keys: [{ name: ci, key: ${KEY}, hosts: [app.example.com], basic: true }] }`
const RULES = `policies: { staff: 'Group("staff")' }, rules: [
  { paths: [/open/*], require: anyone }, { tools: [read_*], require: staff }, { paths: [/admin/*], require: staff } ]`

/** What a part of a request is filled with, percent-encoded where a path is: all that some reader treats in its own way. */
const UNITS = {
  marks: '%CC%A7%CC%81',
  'marks that look like letters': '%EF%BE%9E%CC%81',
  'marks with something hidden between them': '%CC%A7%CC%81%E2%80%8D',
  'thirty marks': `a${'%CC%A7%CC%81'.repeat(15)}`,
  'letters of several': '%E1%84%80%E1%85%A1%E1%86%A8',
  ligatures: '%EF%B7%BA',
  'wide dots': '%EF%BC%8E',
  'half a character': '%ED%A0%80',
  'four bytes': '%F0%9F%98%80',
  bytes: '\xcc\x81',
  'a percent sign': '%25',
  'an encoded encoding': '%25252e',
  'another encoding': '%u002e',
  dots: '.',
  'segments of dots': './',
  slashes: '/',
  backslashes: '\\',
  quotes: '"',
  parameters: '&a=',
  tickets: '&gatehouse-ticket=a',
  plus: '+',
  semicolons: ';',
  commas: ',',
  spaces: ' ',
  'media types': 'text/html;q=0.1,',
  languages: 'en;q=0.1,',
  addresses: '192.0.2.7, ',
  cookies: 'a=b; ',
  'cookies of ours': '__Host-gatehouse-app.main=a.b.c; ',
  hops: `__Host-gatehouse-hop.main.01234567=${'a'.repeat(22)}; `,
  schemes: 'Basic ',
  letters: 'a',
}

/** The parts of a request that somebody may fill. */
const PARTS: Readonly<Record<string, (text: string) => RequestHeaders>> = {
  path: (text) => ({ uri: `/${text}` }),
  'path for anyone': (text) => ({ uri: `/open/${text}` }),
  query: (text) => ({ uri: `/?${text}` }),
  ...Object.fromEntries(
    ['Cookie', 'Accept', 'Accept-Language', 'Authorization', 'X-Forwarded-For', 'Mcp-Name'].map(
      (name) => [name, (text: string) => ({ [name]: text })],
    ),
  ),
  'media types': (text) => ({ Accept: `text/html,${text}` }),
  'credentials of Basic': (text) => ({ Authorization: `Basic ${text}` }),
  token: (text) => ({ Authorization: `Bearer ${text}` }),
  key: (text) => ({ Authorization: `APIKey ${text}` }),
}

const CALL = { 'Mcp-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call' }
const shapeOf = (proxy: string) => SHAPES.find((each) => each.proxy.startsWith(proxy)) as Shape

/** The same request as each dialect writes it. */
const DIALECTS: Readonly<Record<string, (uri: string) => [Shape, RequestHeaders]>> = {
  forward: (uri) => [shapeOf('traefik'), { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': uri }],
  nginx: (uri) => [
    shapeOf('nginx'),
    { 'X-Original-Method': 'GET', 'X-Original-URL': `https://app.example.com${uri}` },
  ],
  envoy: (uri) => [
    { ...shapeOf('envoy'), method: 'GET', path: `/authz/envoy/policy/any${uri}` },
    {},
  ],
}

const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 200
/** As much as a request may have, with the rest of its headers. */
const MOST = 40_000

interface Case {
  readonly sender: string
  readonly dialect: string
  readonly part: string
  readonly units: readonly string[]
  readonly length: number
}

async function start(t: Test) {
  const options = `${CALLERS}, ${RULES}`.replace(/\s+/g, ' ')
  const test = await startApp(t, yamlOf(portalOf('main', options)))
  const cookie = await test.signIn('main')
  /** What whoever may send a request sends besides. */
  const senders: Readonly<Record<string, RequestHeaders>> = {
    nobody: BROWSER,
    'a script': { Accept: 'application/json' },
    'a person': { ...BROWSER, Cookie: cookie },
    'a program': { Authorization: `APIKey ${KEY}`, ...CALL },
  }
  const workOf = ({ sender, dialect, part, units, length }: Case) => {
    const unit = units.map((name) => UNITS[name as keyof typeof UNITS]).join('')
    const { uri = '/', ...filled } = PARTS[part]!(unit.repeat(length / unit.length))
    const [shape, headers] = DIALECTS[dialect]!(uri)
    const own = senders[sender]!
    if (own.Cookie && filled.Cookie) filled.Cookie = `${own.Cookie}; ${filled.Cookie}`
    return wholeWorkOf(() => test.check(shape, { ...headers, ...own, ...filled }))
  }
  return { senders: Object.keys(senders), workOf }
}

/** Blocks and characters: for each that is sent, and for every check. */
const mostFor = (length: number) => 40 * length + 20_000

t.test('a check takes linear work, whatever it is filled with', async (t) => {
  const { senders, workOf } = await start(t)
  const dear: string[] = []
  const look = async (one: Case) => {
    const work = await workOf(one)
    if (work > mostFor(one.length)) dear.push(`${work}: ${Object.values(one).join(', ')}`)
  }
  // Half of it shows as well what takes more than linear work.
  const some = { sender: 'nobody', dialect: 'forward', length: MOST / 2 }
  // What is compiled or loaded once does not count.
  for (const sender of senders) await workOf({ ...some, sender, part: 'query', units: ['letters'] })
  for (const part of Object.keys(PARTS))
    for (const unit of Object.keys(UNITS)) await look({ ...some, part, units: [unit] })
  const oneOf = (all: object) => fc.constantFrom(...Object.keys(all))
  const cases = fc.record({
    sender: fc.constantFrom(...senders),
    dialect: oneOf(DIALECTS),
    part: oneOf(PARTS),
    units: fc.array(oneOf(UNITS), { minLength: 1, maxLength: 3 }),
    length: fc.constantFrom(2_000, 8_000, MOST),
  })
  for (const one of fc.sample(cases, { numRuns: RUNS, seed: 7 })) await look(one)
  t.strictSame(dear, [])
})
