import fc from 'fast-check'
import t from 'tap'
import { canonicalJson } from '../../src/canonical-json.ts'
import { FwaError } from '../../src/errors.ts'
import { fold, JsonReader } from '../../src/mcp-proxy/json.ts'
import {
  callOf,
  digestOf,
  isHandshake,
  isKnownMethod,
  readMessage,
  withoutState,
} from '../../src/mcp-proxy/message.ts'

const read = (text: string | Uint8Array) => readMessage(Buffer.from(text))
/** A call of a tool with these members of `params` besides its name, as JSON. */
const withParams = (params: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",${params}}}`
/** A call with an argument, as JSON. */
const withArgument = (json: string) => withParams(`"arguments":{"x":${json}}`)
const argumentOf = (json: string) => (read(withArgument(json)).params.arguments as { x: unknown }).x
const ofMethod = (method: string, params = '{}') =>
  `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":${params}}`
/** Where each method says what it is about. */
const NAMED_METHODS: readonly (readonly [method: string, member: string])[] = [
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['resources/subscribe', 'uri'],
  ['resources/unsubscribe', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/result', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]
/** What clients may send, by the revision that has it first. */
const HANDSHAKE = [
  ...['initialize', 'ping', 'notifications/initialized'],
  ...['notifications/cancelled', 'notifications/progress', 'notifications/roots/list_changed'],
  // 2025-11-25
  'notifications/tasks/status',
  // 2026-07-28
  'server/discover',
]
const CALLS = [
  ...['completion/complete', 'logging/setLevel', 'prompts/get', 'prompts/list'],
  ...['resources/list', 'resources/read', 'resources/templates/list'],
  ...['resources/subscribe', 'resources/unsubscribe', 'tools/call', 'tools/list'],
  // 2025-11-25
  ...['tasks/cancel', 'tasks/get', 'tasks/list', 'tasks/result'],
  // 2026-07-28, and its extension for tasks
  ...['subscriptions/listen', 'tasks/update'],
]
const UNKNOWN = [
  ...['Tools/Call', 'tools/call ', ' tools/call', 'tools/call/', '/tools/call', 'tools//call'],
  ...['tools/\u0441all', 'tool\u017f/call', 'tools.call', 'tools/Call', 'tools', '', 'acme/x'],
  ...[
    'toString',
    'constructor',
    '__proto__',
    'rpc.discover',
    'notifications/acme',
    'notifications/',
  ],
  // What servers send.
  ...['elicitation/create', 'roots/list', 'sampling/createMessage', 'notifications/message'],
  ...[
    'notifications/resources/updated',
    'notifications/resources/list_changed',
    'notifications/tasks',
  ],
  ...['notifications/prompts/list_changed', 'notifications/tools/list_changed'],
  ...['notifications/elicitation/complete', 'notifications/subscriptions/acknowledged'],
]
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

/** What the error says is wrong; undefined if the body is read. */
function problemOf(body: string | Uint8Array): string | undefined {
  try {
    read(body)
    return undefined
  } catch (error) {
    if (!(error instanceof FwaError) || error.code !== 'FWA_CALL_UNREADABLE') throw error
    return error.message.slice('Not a message that all servers read alike: '.length)
  }
}

t.test('reads messages', async (t) => {
  const rows: [body: string, message: unknown][] = [
    ['{"jsonrpc":"2.0","id":1,"method":"tools/list"}', { id: 1, method: 'tools/list', params: {} }],
    [
      ' {"method" : "tools/call", "params" :\t{"name":"a"},\r\n"id":"\\u0031","jsonrpc":"2.0" } ',
      { id: '1', method: 'tools/call', params: { name: 'a' } },
    ],
    [
      '{"jsonrpc":"2.0","method":"tools\\/call","params":{"n\\u0061me":"\\u0061"}}',
      { id: undefined, method: 'tools/call', params: { name: 'a' } },
    ],
    [
      '{"jsonrpc":"2.0","id":-9007199254740991,"result":{"x":1}}',
      { id: -9007199254740991, method: undefined, params: {} },
    ],
    ['{"jsonrpc":"2.0","id":"","error":{}}', { id: '', method: undefined, params: {} }],
    [ofMethod('acme/x', '{"other":1}'), { id: 1, method: 'acme/x', params: { other: 1 } }],
  ]
  for (const [body, message] of rows) t.strictSame(read(body), message, body)
})

t.test('reads arguments as JSON.parse does, but integers in all their digits', async (t) => {
  const rows: [json: string, value: unknown][] = [
    ['"\u2028\u00a0\u{1f600}\ufeff\x7f"', '\u2028\u00a0\u{1f600}\ufeff\x7f'],
    ['"\\ud83d\\ude00\\"\\\\\\u0000"', '\u{1f600}"\\\0'],
    ['[true, false, null, {}, [], ""]', [true, false, null, {}, [], '']],
    ['[0, -0, 1.50, 1e3, 2E-2, 1e300]', [0, -0, 1.5, 1000, 0.02, 1e300]],
    ['["a\\\\", "\\\\\\"", "\\\\\\\\"]', ['a\\', '\\"', '\\\\']],
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['-123456789012345678901', -123456789012345678901n],
    ['9007199254740993.0', 9007199254740992],
    ['{"a_b":1,"a-b":2,"ab":3}', { a_b: 1, 'a-b': 2, ab: 3 }],
    ['{"constructor":1,"toString":2}', { constructor: 1, toString: 2 }],
  ]
  for (const [json, value] of rows) {
    t.strictSame(argumentOf(json), value, encodeURI(json))
    t.equal(typeof argumentOf(json), typeof value)
  }
  t.equal(problemOf(withArgument(nested(61))), undefined, 'as deep as can be')
  const names = Array.from({ length: 9_993 }, (_, index) => `"${index}":0`)
  t.equal(problemOf(withArgument(`{${names}}`)), undefined, 'as many members as can be')
  t.equal(problemOf(withArgument(`[${'0,'.repeat(49_990)}0]`)), undefined, 'as many values')
})

t.test('refuses what parsers read differently, and says where', async (t) => {
  const message = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
  const rows: [problem: string, body: string | Uint8Array][] = [
    ['not JSON at ""', ''],
    ['not JSON at ""', ' \n'],
    ['not JSON at ""', `\ufeff${message}`],
    ['not UTF-8 at ""', Buffer.from(message, 'utf16le').fill(0xff, 0, 1)],
    ['not UTF-8 at ""', Buffer.from(message.replace('list', 'l\u00e9st'), 'latin1')],
    ['not UTF-8 at ""', Uint8Array.of(0x22, 0xc0, 0xaf, 0x22)],
    ['not UTF-8 at ""', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ['no name of a member at "/0"', Buffer.from(message, 'utf16le')],
    ['something after the value at ""', message + message],
    ['something after the value at ""', `${message}\0`],
    ['not an object at ""', `[${message}]`],
    ['not an object at ""', '"tools/list"'],
    ['not an object at ""', 'null'],
    ['no name of a member at "/1"', '{"a":1,}'],
    ['no name of a member at "/0"', '{a:1}'],
    ['no name of a member at "/0"', "{'a':1}"],
    ['no name of a member at "/0"', '{/**/}'],
    ['no ":" at "/a"', '{"a"}'],
    ['no "," at ""', '{"a":1 "b":1}'],
    ['no "," at "/a"', '{"a":[1 2]}'],
    ['no "," at ""', '{"a":1'],
    ['not JSON at "/a/1"', '{"a":[1,]}'],
    ...['NaN', '-Infinity', 'True', 'undefined', '+1', '.5', '-', "'a'"].map(
      (json): [string, string] => ['not JSON at "/params/arguments/x"', withArgument(json)],
    ),
    ...['01', '1.', '1e', '0x1', '1_0', 'nulll', 'truefalse'].map((json): [string, string] => [
      'no "," at "/params/arguments"',
      withArgument(json),
    ]),
    ...['"\t"', '"\n"', '"\0"', '"\\x41"', '"\\u12"', '"\\ud800"', '"\\udc00\\ud800"'].map(
      (json): [string, string] => [
        'a text that is not Unicode at "/params/arguments/x"',
        withArgument(json),
      ],
    ),
    ['a text that is not Unicode at "/params/arguments/x/0"', withArgument('{"\\ud800":1}')],
    ['a text without end at "/a"', '{"a":"\\"'],
    ['a text without end at ""', '"\\'],
    ['a number that is too large at "/params/arguments/x"', withArgument('1e309')],
    ['a number that is too large at "/params/arguments/x"', withArgument('9'.repeat(310))],
    ['a member that messages do not have at "/Method"', message.replace('method', 'Method')],
    ['a member that messages do not have at "/_meta"', message.replace('id', '_meta')],
    ['not "2.0" at "/jsonrpc"', message.replace('2.0', '2')],
    ['not "2.0" at "/jsonrpc"', message.replace('"2.0"', '2.0')],
    ['not "2.0" at "/jsonrpc"', '{"id":1,"method":"tools/list"}'],
    ...['null', '1.5', '{}', '[1]', 'true', '9007199254740993', '-9007199254740992', '1e300'].map(
      (id): [string, string] => [
        'neither a text nor a safe integer at "/id"',
        message.replace(':1,', `:${id},`),
      ],
    ),
    ['not one of method, result and error at ""', '{"jsonrpc":"2.0","id":1}'],
    [
      'not one of method, result and error at ""',
      '{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    ],
    ['not one of method, result and error at ""', message.replace('}', ',"result":null}')],
    ['not a response at ""', '{"jsonrpc":"2.0","result":{}}'],
    ['not a response at ""', '{"jsonrpc":"2.0","id":1,"result":{},"params":{}}'],
    ['not a response at ""', '{"jsonrpc":"2.0","id":1,"result":null}'],
    ['not a response at ""', '{"jsonrpc":"2.0","id":1,"error":"no"}'],
    ['not an object at "/params"', ofMethod('tools/list', '[]')],
    ['not an object at "/params"', ofMethod('tools/list', 'null')],
    ['not an object at "/params/_meta"', withParams('"_meta":null')],
    ['not an object at "/params/arguments"', withParams('"arguments":[1]')],
    ['not an object at "/params/arguments"', withParams('"arguments":null')],
    [`not JSON at "/${'x'.repeat(60)}/a"`, `{"${'x'.repeat(100)}":{"a":}}`],
    ['more than 64 levels at "', withArgument(nested(62))],
    [
      'more than 10000 members at "/params/arguments/x/9993"',
      withArgument(`{${manyMembers(10_000)}}`),
    ],
    ['more than 50000 values at "/params/arguments/x/', withArgument(`[${'0,'.repeat(50_000)}0]`)],
  ]
  for (const [problem, body] of rows) {
    const got = problemOf(body)
    t.equal(got?.slice(0, problem.length), problem, `${Buffer.from(body).subarray(0, 200)}`)
  }
})

function manyMembers(count: number): string {
  return Array.from({ length: count }, (_, index) => `"${index}":0`).join()
}

t.test(
  'refuses a name twice, in another case, or in another spelling of one that is read',
  async (t) => {
    const twice = 'a name for the second time, perhaps in another case at '
    const spelled = 'another spelling of a name at '
    const rows: [problem: string, body: string][] = [
      [`${twice}"/method"`, '{"method":"tools/list","method":"tools/call"}'],
      [`${twice}"/Method"`, '{"method":"tools/list","Method":"tools/call"}'],
      [`${twice}"/method"`, '{"method":"tools/list","\\u006dethod":"tools/call"}'],
      [`${twice}"/params/name"`, withParams('"name":"b"')],
      [`${twice}"/params/NAME"`, withParams('"NAME":"b"')],
      [`${twice}"/params/arguments/x"`, withParams('"arguments":{"x":1,"x":1}')],
      [`${twice}"/params/arguments/x/1/y~1~0/B"`, withArgument('[0,{"y/~":{"b":1,"B":1}}]')],
      [`${twice}"/params/arguments/x/\u017f"`, withArgument('{"s":1,"\u017f":1}')],
      [`${twice}"/params/arguments/x/\u212a"`, withArgument('{"k":1,"\\u212a":1}')],
      [`${twice}"/params/arguments/x/\u1e9e"`, withArgument('{"\u00df":1,"\u1e9e":1}')],
      [
        'a name that some parsers drop at "/params/arguments/x/__proto__"',
        withArgument('{"__proto__":{}}'),
      ],
      [`${spelled}"/params/Arguments"`, withParams('"Arguments":{}')],
      [`${spelled}"/params/argument\u017f"`, withParams('"argument\u017f":{}')],
      [`${spelled}"/params/request_state"`, withParams('"request_state":""')],
      [`${spelled}"/params/Uri"`, withParams('"Uri":""')],
      [`${spelled}"/params/task_id"`, withParams('"task_id":""')],
      [`${spelled}"/params/meta"`, withParams('"meta":{}')],
      [`${spelled}"/params/_meta/progress-token"`, withParams('"_meta":{"progress-token":1}')],
      [
        `${spelled}"/params/_meta/progressto\u212aen"`,
        withParams('"_meta":{"progressto\u212aen":1}'),
      ],
      [`${spelled}"/params/Name"`, ofMethod('tools/list', '{"Name":"a"}')],
    ]
    for (const [problem, body] of rows) t.equal(problemOf(body), problem, body)
    t.equal(
      problemOf(withParams('"_meta":{"progressToken":1},"arguments":{"Name":1,"URI":2}')),
      undefined,
    )
  },
)

t.test('wants a name of each method that is about something', async (t) => {
  const problem = 'not a text of 1 to 1000 characters without control characters at '
  for (const [method, member] of NAMED_METHODS) {
    const call = (value: unknown) => ofMethod(method, JSON.stringify({ [member]: value }))
    for (const value of [
      undefined,
      null,
      1,
      {},
      ['a'],
      '',
      'a\0',
      '\x7f',
      'a\u0085b',
      'x'.repeat(1001),
    ])
      t.equal(problemOf(call(value)), `${problem}"/params/${member}"`, `${method} ${value}`)
    for (const value of [' ', 'a\u202eb', '\u{1f600}'.repeat(1000)])
      t.match(read(call(value)), { method, params: { [member]: value } })
  }
  for (const method of [
    '1',
    '""',
    '"tools/call\\u0000"',
    `"${'x'.repeat(1001)}"`,
    'null',
    '["tools/call"]',
  ])
    t.equal(problemOf(`{"jsonrpc":"2.0","method":${method}}`), `${problem}"/method"`, method)
})

t.test('knows the methods of all revisions to the letter', async (t) => {
  for (const method of HANDSHAKE) t.ok(isKnownMethod(method) && isHandshakeMethod(method), method)
  for (const method of CALLS) t.ok(isKnownMethod(method) && !isHandshakeMethod(method), method)
  for (const method of UNKNOWN) t.notOk(isKnownMethod(method) || isHandshakeMethod(method), method)
  t.ok(isHandshake(read('{"jsonrpc":"2.0","id":1,"result":{}}')), 'a response')
})

/** Whether a message of a method is one of a handshake. */
function isHandshakeMethod(method: string): boolean {
  return isHandshake({ id: 1, method, params: {} })
}

t.test('names the call that rules decide about', async (t) => {
  const call = (body: string) => callOf(read(body))
  t.match(call(ofMethod('tools/list', '{"name":"a"}')), { method: 'tools/list' })
  t.strictSame(call(ofMethod('acme/x', '{"name":"a"}')), { method: 'acme/x' })
  t.strictSame(call(withArgument('1')), { method: 'tools/call', name: 'a', arguments: { x: 1 } })
  t.match(call('{"jsonrpc":"2.0","id":1,"result":{}}'), { method: 'tools/list' })
  t.match(call(ofMethod('notifications/cancelled')), { method: 'tools/list' })
  for (const [method, member] of NAMED_METHODS)
    t.strictSame(call(ofMethod(method, `{"${member}":"b"}`)), {
      ...{ method, name: 'b' },
      ...(member === 'name' && { arguments: {} }),
    })
})

t.test('tells arguments apart by what they mean', async (t) => {
  const digest = (json: string) =>
    digestOf(read(withParams(`"arguments":${json}`)).params.arguments as never)
  const same: [string, string][] = [
    ['{"a":1,"b":{"c":[1],"d":2}}', '{"b":{"d":2.0,"c":[1e0]},"\\u0061":1}'],
    ['{"a":-0}', '{"a":0}'],
  ]
  for (const [one, other] of same) t.equal(digest(one), digest(other), one)
  const texts = [
    '{}',
    '{"a":1}',
    '{"a":"1"}',
    '{"a":[1]}',
    '{"a":{"0":1}}',
    '{"a":null}',
    '{"a":true}',
  ]
  const numbers = ['{"a":9007199254740992}', '{"a":9007199254740993}', '{"a":"9007199254740993"}']
  const digests = [undefined, ...texts, ...numbers].map((json) =>
    json === undefined ? digestOf(json) : digest(json),
  )
  t.equal(new Set(digests).size, digests.length)
  t.match(digests[0], /^[\w-]{43}$/)
  // RFC 8785 section 3.2.3.
  const sorted = '{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\u{1f600}":5,"\u0080":6,"\u00f6":7}'
  const names = Object.keys(JSON.parse(canonicalJson(JSON.parse(sorted.replace('\r', '\\r')))))
  t.strictSame(names, ['1', '\r', '\u0080', '\u00f6', '\u20ac', '\u{1f600}', '\ufb33'])
})

t.test('leaves out the state of earlier rounds, and keeps the text of the rest', async (t) => {
  const rows: [params: string, rest: string][] = [
    [
      '{"name" : "a", "requestState":"x","arguments" :{ "requestState":1.0,"y":9007199254740993}}',
      '{"name" : "a","arguments" :{ "requestState":1.0,"y":9007199254740993}}',
    ],
    ['{"requestState":"x","name":"\\u0061","inputResponses":{"a":[1]}}', '{"name":"\\u0061"}'],
    ['{"name":"a","request\\u0053tate":"x" }', '{"name":"a" }'],
    ['{ "inputResponses":{},"requestState":"" }', '{  }'],
  ]
  for (const [params, rest] of rows)
    t.equal(
      withoutState(Buffer.from(ofMethod('acme/x', params))).toString(),
      ofMethod('acme/x', rest),
    )
  const response = '{"jsonrpc":"2.0","id":1,"result":{"requestState":1}}'
  for (const text of [withArgument('{"requestState":1}'), ofMethod('acme/x'), response]) {
    const body = Buffer.from(text)
    t.equal(withoutState(body), body, `the same body: ${text}`)
  }
})

t.test('reads JSON that was written for all parsers', async () => {
  const values = fc.jsonValue({ maxDepth: 5, stringUnit: 'binary' })
  fc.assert(
    fc.property(values, fc.constantFrom('', ' ', '\t', '\n'), (value, space) => {
      const text = JSON.stringify(value, null, space)
      const got = readJson(text)
      return isAlike(value) ? canonicalJson(got) === canonicalJson(value) : got === undefined
    }),
  )
})

/** Whether all parsers read a value alike. */
function isAlike(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  const names = Array.isArray(value) ? [] : Object.keys(value)
  const isDistinct = new Set(names.map(fold)).size === names.length && !names.includes('__proto__')
  return isDistinct && Object.values(value).every(isAlike)
}

t.test('reads nothing that JSON.parse refuses', async () => {
  const part = fc.constantFrom(...'{}[],:"\\-0.1eEu \n\0', '"a"', '"b":', 'true', '\\u0061', '1e9')
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      const text = parts.join('')
      const value = readJson(text)
      return value === undefined || canonicalJson(value) === canonicalJson(JSON.parse(text))
    }),
    { numRuns: 20_000 },
  )
})

/** What is read; undefined if it is refused. */
function readJson(text: string): unknown {
  try {
    return new JsonReader(Buffer.from(text)).read()
  } catch (error) {
    if (error instanceof FwaError) return undefined
    throw error
  }
}

t.test('folds all characters that Unicode folds one by one', async (t) => {
  const characters = Array.from({ length: 0x2_0000 }, (_, code) => String.fromCodePoint(code))
  const letters = characters.filter((character) => /[\p{L}\p{M}\p{N}\p{S}]/u.test(character))
  const foldings = Map.groupBy(letters, fold)
  const rivals = letters.filter((letter) => {
    const { source } = new RegExp(`^\\u{${letter.codePointAt(0)?.toString(16)}}$`)
    const equal = new RegExp(source, 'iu')
    const spellings = [letter.toLowerCase(), letter.toUpperCase(), fold(letter)]
    return spellings.some((other) => equal.test(other) && fold(other) !== fold(letter))
  })
  t.strictSame(rivals, [])
  for (const alike of [
    'Kk\u212a',
    'Ss\u017f',
    '\u00df\u1e9e',
    '\u03a3\u03c3\u03c2',
    '\u00e5\u00c5\u212b',
    '\u03c9\u03a9\u2126',
    '\u0398\u03b8\u03d1\u03f4',
    '\u00b5\u03bc\u039c',
    '\u1c80\u0432\u0412',
  ])
    t.match(foldings.get(fold(alike.slice(0, 1))), [...alike].sort(), alike)
})
