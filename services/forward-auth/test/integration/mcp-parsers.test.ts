import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { CallToolRequestSchema, JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js'
import fc from 'fast-check'
import t from 'tap'
import { canonicalJson } from '../../src/canonical-json.ts'
import { FwaError } from '../../src/errors.ts'
import { type Message, readMessage } from '../../src/mcp-proxy/message.ts'

/** What a parser makes of a body. */
interface Reading {
  readonly method?: unknown
  readonly name?: unknown
  readonly uri?: unknown
  readonly taskId?: unknown
  readonly arguments?: unknown
}

/** What each way to read a body makes of it; null if it refuses the body. */
type Readings = Readonly<Record<string, Reading | null>>

interface Parser {
  readonly title: string
  readonly lacks: string | false
  read(bodies: readonly Buffer[]): readonly Readings[]
}

const HELPERS = join(import.meta.dirname, '../helpers/mcp-parsers')

/** A program that answers each line with a line. */
function program(title: string, file: string | undefined, args: readonly string[] = []): Parser {
  const isMissing = spawnSync(`${file}`, ['--version']).error !== undefined
  return {
    title,
    lacks: isMissing && `${file ?? 'its folder'} is not there`,
    read(bodies) {
      const input = bodies.map((body) => `${body.toString('base64')}\n`).join('')
      const { stdout, stderr, status } = spawnSync(`${file}`, args, {
        ...{ input, encoding: 'utf8', maxBuffer: 2 ** 28 },
      })
      if (status !== 0) throw new Error(`${title} failed: ${stderr}`)
      return stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    },
  }
}

function made(folder: string | undefined, name: string): string | undefined {
  return folder && join(folder, name)
}

/** The folders of what `scripts/mcp-parsers.sh` and `scripts/agent-clients.sh` make. */
const { MCP_PARSERS, AGENT_CLIENTS } = process.env
const PYTHON = [join(HELPERS, 'parser.py')]
const PARSERS: readonly Parser[] = [
  { title: 'JavaScript', lacks: false, read: (bodies) => bodies.map(readInJavaScript) },
  program('Python', 'python3', PYTHON),
  program('SDK 1 for Python', made(AGENT_CLIENTS, 'python1/bin/python'), PYTHON),
  program('SDK 2 for Python', made(AGENT_CLIENTS, 'python2/bin/python'), PYTHON),
  program('Go', made(MCP_PARSERS, 'go')),
  program('Rust', made(MCP_PARSERS, 'rust')),
]

function readInJavaScript(body: Buffer): Readings {
  const parse = () => JSON.parse(body.toString())
  return {
    'JSON.parse': readingOf(() => parse()),
    SDK: readingOf(() => {
      const message = JSONRPCMessageSchema.parse(parse())
      const isCall = 'method' in message && message.method === 'tools/call'
      return isCall ? CallToolRequestSchema.parse(message) : message
    }),
  }
}

function readingOf(parse: () => unknown): Reading | null {
  try {
    const { method, params } = parse() as { method?: unknown; params?: Reading }
    return { ...params, method }
  } catch {
    return null
  }
}

/** What Gatehouse reads; undefined if it refuses the body. */
function readHere(body: Buffer): Message | undefined {
  try {
    return readMessage(body)
  } catch (error) {
    if (error instanceof FwaError) return undefined
    throw error
  }
}

/** What a method is about, by its member. */
const MEMBERS: Readonly<Record<string, keyof Reading>> = {
  'tools/call': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
}

/** What of a reading decides, as a text: with numbers as doubles, and what is null as if it were not there. */
function textOf(reading: Reading): string {
  const { method } = reading
  const member = MEMBERS[String(method)]
  const called = member && reading[member]
  const sent = member === 'name' ? reading.arguments : undefined
  return canonicalJson(JSON.parse(canonicalJson([method, called, sent])))
}

const weighted = <T>(usual: T, ...others: T[]) =>
  fc.oneof(
    { weight: 40 * others.length, arbitrary: fc.constant(usual) },
    ...others.map((other) => fc.constant(other)),
  )

/** A name of a member as JSON, in what other parsers may take for the same. */
const nameOf = (name: string) =>
  weighted(
    ...[name, name.toUpperCase(), `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`, `${name} `],
    ...[
      name.replace('s', '\u017f'),
      name.replace('k', '\u212a'),
      `${name}\\u0000`,
      `\ufeff${name}`,
    ],
    ...[`\\u${name.charCodeAt(0).toString(16).padStart(4, '0')}${name.slice(1)}`, `_${name}`],
    ...[name.replace(/[A-Z]/, (letter) => `_${letter.toLowerCase()}`), '__proto__', ''],
  ).map((name) => `"${name}"`)

const ALIKE = [
  ...['"read"', '"delete"', '"\\u0072ead"', '"read\\u0000"', '"\\ud83d\\ude00"', '"\u2028"', '""'],
  ...['0', '-0', '1.0', '1e2', '0.1', '1.7976931348623157e308', '5e-324', '1e-999'],
  ...['9007199254740993', '-9223372036854775809', '18446744073709551616', '9'.repeat(300)],
  ...['123456789.12345678901234567890', '2.2250738585072011e-308', 'null', 'true', 'false', '{}'],
]
const UNLIKE = [
  ...[
    '"\\ud800"',
    '"\t"',
    '"\\x41"',
    "'read'",
    '01',
    '+1',
    '1.',
    '1e309',
    '-1e999',
    '9'.repeat(400),
  ],
  ...['NaN', '-Infinity', 'True', '[1,]', '{"a":1,"a":2}', '{"a":1,"A":2}', '{"__proto__":1}', ''],
]
const scalar = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom(...ALIKE) },
  fc.constantFrom(...UNLIKE),
)
const json: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: scalar },
  fc.array(scalar, { maxLength: 3 }).map((items) => `[${items}]`),
  fc.array(fc.tuple(nameOf('task'), scalar), { maxLength: 3 }).map(objectOf),
  fc.jsonValue().map((value) => JSON.stringify(value)),
)

function objectOf(members: readonly (readonly [name: string, json: string])[]): string {
  return `{${members.map(([name, json]) => `${name}:${json}`)}}`
}

/** An object with the given members, of which some are missing, or there more than once. */
function object(members: Readonly<Record<string, fc.Arbitrary<string>>>): fc.Arbitrary<string> {
  const each = Object.entries(members).map(([name, value]) => fc.tuple(nameOf(name), value))
  const more = fc.oneof(
    { weight: 8, arbitrary: fc.constant([]) },
    fc.tuple(fc.oneof(...each)),
    fc.tuple(fc.tuple(nameOf('other'), json)),
  )
  return fc
    .tuple(fc.tuple(...each), more, weighted(0, 1, 2))
    .chain(([all, more, missing]) =>
      fc.shuffledSubarray([...all, ...more], {
        minLength: Math.max(0, all.length + more.length - missing),
      }),
    )
    .map(objectOf)
}

const calledName = weighted(
  '"read"',
  '"delete"',
  '"\\u0072ead"',
  '"read\\u0000"',
  '"Read"',
  '1',
  'null',
)
const params = object({
  name: calledName,
  uri: weighted('"notes:///1"', '1'),
  taskId: weighted('"1"', 'null'),
  arguments: fc.oneof({ weight: 4, arbitrary: object({ note: json, kind: json }) }, json),
  _meta: fc.oneof(fc.constant('{}'), object({ progressToken: scalar })),
  requestState: weighted('"state"', 'null'),
})
const message = object({
  jsonrpc: weighted('"2.0"', '2.0', '"1.0"'),
  id: weighted('1', '"1"', '1.0', 'null', '1.5', '9007199254740993', '{}'),
  method: weighted(
    '"tools/call"',
    '"tools\\/call"',
    '"Tools/Call"',
    '"resources/read"',
    '"tools/list"',
    '"tasks/get"',
    '1',
  ),
  params: fc.oneof({ weight: 9, arbitrary: params }, json),
})

/** Bodies of calls, and what they may become on the way to trouble. */
const body = fc
  .tuple(message, weighted('none', 'cut', 'bytes', 'text', 'around'), fc.nat(), fc.nat(255))
  .map(([text, change, place, byte]) => {
    const bytes = Buffer.from(text)
    const position = place % bytes.length
    if (change === 'cut') return bytes.subarray(0, position)
    if (change === 'bytes')
      return Buffer.concat([
        bytes.subarray(0, position),
        Buffer.of(byte),
        bytes.subarray(position + 1),
      ])
    const inserted = ['"', '\\', ',', ':', '{', ']', ' ', '\0', '/**/', '\u00a0'][byte % 10]
    if (change === 'text')
      return Buffer.from(
        `${text.slice(0, place % text.length)}${inserted}${text.slice(place % text.length)}`,
      )
    const around = ['\ufeff', ' ', '[', text, '\f', ")]}'\n"]
    return change === 'around'
      ? Buffer.from(`${around[byte % 6]}${text}${around[place % 6]}`)
      : bytes
  })

const CALL =
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"x":1}}}'
const STRANGE: readonly (string | Buffer)[] = [
  CALL,
  `\ufeff${CALL}`,
  `[${CALL}]`,
  CALL + CALL.replace('read', 'delete'),
  Buffer.from(CALL, 'utf16le'),
  Buffer.from(CALL.replace('read', 'r\u00e9ad'), 'latin1'),
  ...[
    '"name":"delete"',
    '"\\u006eame":"delete"',
    '"Name":"delete"',
    '"argument\u017f":{"x":2}',
  ].map((member) => CALL.replace(/\}\}$/, `,${member}}}`)),
  ...['"method":"tools/list"', '"Method":"tools/list"', '"param\u017f":{"name":"delete"}'].map(
    (member) => CALL.replace(/\}$/, `,${member}}`),
  ),
  ...['"x":2', '"X":2', '"__proto__":{"x":2}'].map((member) =>
    CALL.replace('"x":1', `"x":1,${member}`),
  ),
  ...['NaN', '1e999', '"\\ud800"', '/**/1', "'1'", '01', '9007199254740993', '[[[[1]]]]'].map(
    (value) => CALL.replace('"x":1', `"x":${value}`),
  ),
]

const seed = Date.now() % 2 ** 31
const BODIES = [
  ...STRANGE.map((body) => Buffer.from(body)),
  ...fc.sample(body, { numRuns: 4_000, seed }),
]

const OWN = BODIES.map(readHere)
/** For each body, what parsers make of it. */
const texts = BODIES.map(() => new Set<string>())

for (const { title, lacks, read } of PARSERS)
  t.test(`${title} reads what is let through as it was read here`, { skip: lacks }, async (t) => {
    const differences: unknown[] = []
    let accepted = 0
    read(BODIES).forEach((readings, index) => {
      const own = OWN[index]
      const expected = own?.method && textOf({ ...own.params, method: own.method })
      for (const [way, reading] of Object.entries(readings)) {
        if (reading === null) continue
        const text = textOf(reading)
        texts[index]?.add(text)
        if (expected) accepted++
        if (expected && text !== expected)
          differences.push({ way, body: BODIES[index]?.toString(), expected, text })
      }
    })
    t.strictSame(differences, [], `seed ${seed}`)
    t.ok(accepted > BODIES.length / 4, `${accepted} readings of what is let through`)
  })

const skip = !process.env.MCP_PARSERS && '$MCP_PARSERS names no folder'
t.test('parsers differ about what is refused', { skip }, async (t) => {
  const differing = texts.flatMap((readings, index) => (readings.size > 1 ? [OWN[index]] : []))
  t.ok(differing.length > 20, `${differing.length} of ${BODIES.length} bodies`)
  t.ok(differing.every((own) => own === undefined))
})
