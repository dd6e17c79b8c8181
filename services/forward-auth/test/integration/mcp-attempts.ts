import { gzipSync } from 'node:zlib'
import { callHeaders, envelope, type Line, oldToolCall, toolCall } from '../helpers/mcp-requests.ts'
import type { RawRequest } from '../helpers/raw-client.ts'

/** A request that wants a server to run `delete_note` for somebody who may call `read_note` only. */
export interface Attempt {
  readonly method?: string
  readonly target?: string
  /** Default: those of a call of `read_note`. */
  readonly headers?: readonly Line[]
  /** Headers besides. */
  readonly more?: readonly Line[]
  /** Default: a call of the tool in the body of each version. */
  readonly bodies?: readonly string[]
  /** Sent in chunks, with these trailers. */
  readonly trailers?: readonly Line[]
  /** Sent on the same connection after an honest call. */
  readonly isSecond?: boolean
  /** Headers with the ID of a session that was opened without the gate. */
  readonly session?: (id: string) => readonly Line[]
}

const READ = 'read_note'
const DELETE = 'delete_note'
const MODERN = JSON.stringify(toolCall(DELETE))
const OLD = JSON.stringify(oldToolCall(DELETE))
export const BODIES: readonly string[] = [MODERN, OLD]

const base64 = (text: string, encoding: BufferEncoding = 'utf8') =>
  Buffer.from(text, encoding).toString('base64')
const sentinel = (text: string) => `=?base64?${text}?=`

/** The headers of an honest call, with other values. Undefined leaves one out, a list sends it several times. */
interface Values {
  readonly version?: Value
  readonly method?: Value
  readonly name?: Value
}
type Value = string | readonly string[] | undefined

function headers(values: Values): readonly Line[] {
  const given = [values.version, values.method, values.name]
  const has = ['version' in values, 'method' in values, 'name' in values]
  return callHeaders(READ).flatMap(([name, value], i) => {
    const sent = has[i] ? given[i] : value
    return [sent ?? []].flat().map((one): Line => [name, one])
  })
}

/** One attempt for each value. */
const each = <Key extends keyof Values>(key: Key, values: Readonly<Record<string, Value>>) =>
  Object.fromEntries(
    Object.entries(values).map(([title, value]) => [
      `${key}: ${title}`,
      { headers: headers({ [key]: value }) } satisfies Attempt,
    ]),
  )

const bodiesOf = (bodies: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(bodies).map(([title, body]) => [
      `body: ${title}`,
      { bodies: [body] } satisfies Attempt,
    ]),
  )

const more = (prefix: string, all: Readonly<Record<string, readonly Line[]>>) =>
  Object.fromEntries(
    Object.entries(all).map(([title, lines]) => [
      `${prefix}: ${title}`,
      { more: lines } satisfies Attempt,
    ]),
  )

const twice = (text: string, member: string, other: string) =>
  text.replace(`"${member}":`, `"${member}":${other},"${member}":`)
const TYPES = [
  ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=a'],
  ...['application/json; charset=utf-16', 'application/json-rpc', 'application/json, text/plain'],
]
const PATHS = [
  ...['/mcp/', '/MCP', '/mcp%2f', '/mcp%2Fx', '//mcp', '/./mcp', '/x/../mcp', '/x/%2e%2e/mcp'],
  ...[
    '/mcp;x',
    '/mcp?Mcp-Name=read_note',
    '/m%63p',
    '/mcp%00',
    '/mcp%20',
    '/mcp.',
    '/mcp\\',
    '/m%6',
    '/mcp/x',
  ],
  ...['https://app.example.com/mcp', 'http://app.example.com/mcp', 'https://other.example.com/mcp'],
]
const ofSession = (id: string): readonly Line[] => [['Mcp-Session-Id', id]]
const OTHER_URL = 'https://app.example.com/open'

/** At a place whose rules name tools, in front of a server that answers at every path. */
export const ATTEMPTS: Readonly<Record<string, Attempt>> = {
  ...each('name', {
    'of another tool': READ,
    none: undefined,
    empty: '',
    'in capitals': 'READ_NOTE',
    'with spaces and tabs around': ` \t ${READ} \t `,
    'both, joined': `${READ},${DELETE}`,
    'both, with a space': `${READ} ${DELETE}`,
    'as a list': `["${READ}"]`,
    'in quotes': `"${READ}"`,
    'percent-encoded': '%72ead_note',
    'with a parameter': `${READ};name=${DELETE}`,
    'very long': READ.repeat(1_500),
    '*': '*',
    '!': `!${DELETE}`,
    'bytes of another letter': 'r\xc3\xa9ad_note',
    'with NUL': `${READ}\0`,
    'NUL between both': `${READ}\0${DELETE}`,
    'with a control character': `${READ}\x01`,
    'with DEL': `${READ}\x7f`,
    'with a vertical tab': `${READ}\x0b`,
    'with a bare line break': `${READ}\n`,
    'with a bare return': `${READ}\rX: a`,
    folded: `${READ}\r\n ${DELETE}`,
    'folded to nothing': `${READ}\r\n\t`,
    'twice, honest first': [READ, DELETE],
    'twice, honest last': [DELETE, READ],
    'twice the same': [READ, READ],
    'twice, one empty': ['', READ],
  }),
  ...Object.fromEntries(
    Object.entries({
      'of another tool': sentinel(base64(READ)),
      'in capitals': sentinel(base64(READ)).replace('base64', 'BASE64'),
      'without padding': sentinel('cmVhZF9ub3RlcyA'),
      'with other bits at the end': sentinel('cmVhZF9ub3Rf'.replace(/f$/, 'e=')),
      'of URLs': sentinel(Buffer.from('read_note?>').toString('base64url')),
      'without an end': `=?base64?${base64(READ)}`,
      'with a space': `=?base64? ${base64(READ)}?=`,
      'with a line break': sentinel(`${base64(READ)}\r\n `),
      'with a byte order mark': sentinel(base64(`\uFEFF${READ}`)),
      'of UTF-16': sentinel(base64(READ, 'utf16le')),
      'of bytes that are no UTF-8': sentinel(base64(`${READ}\xff`, 'latin1')),
      'twice encoded': sentinel(base64(sentinel(base64(READ)))),
      'of nothing': sentinel(''),
      'with NUL': sentinel(base64(`${READ}\0${DELETE}`)),
      'with a line break inside': sentinel(base64(`${READ}\r\nMcp-Name: ${DELETE}`)),
      'of both': sentinel(base64(`${READ},${DELETE}`)),
      'quoted-printable': `=?utf-8?q?${READ}?=`,
      'beside the plain one': [sentinel(base64(READ)), READ],
    } satisfies Record<string, Value>).map(([title, name]) => [
      `name in base64: ${title}`,
      { headers: headers({ name }) },
    ]),
  ),
  ...each('method', {
    'that lists tools': 'tools/list',
    'of discovery': 'server/discover',
    ping: 'ping',
    initialize: 'initialize',
    'of resources': 'resources/read',
    'of prompts': 'prompts/get',
    'of a notification': 'notifications/initialized',
    'in capitals': 'TOOLS/CALL',
    'with a slash': 'tools/call/',
    none: undefined,
    empty: '',
    'joined with another': 'tools/call,tools/list',
    'twice, honest first': ['tools/call', 'tools/list'],
    'twice, honest last': ['tools/list', 'tools/call'],
    'twice the same': ['tools/call', 'tools/call'],
    'with spaces around': '\t tools/call \t',
    folded: 'tools/list\r\n\ttools/call',
  }),
  ...each('version', {
    none: undefined,
    empty: '',
    'of 2025-11-25': '2025-11-25',
    'of 2025-06-18': '2025-06-18',
    'of 2025-03-26': '2025-03-26',
    'of 2024-11-05': '2024-11-05',
    'of a day before': '2026-07-27',
    'to come': '2099-01-01',
    'that is no day': '9999-99-99',
    'of a draft': '2026-07-28-draft',
    latest: 'latest',
    'without zeros': '2026-7-28',
    'with spaces around': ' \t2026-07-28\t ',
    'twice, old first': ['2025-11-25', '2026-07-28'],
    'twice, old last': ['2026-07-28', '2025-11-25'],
    'twice the same': ['2026-07-28', '2026-07-28'],
    joined: '2026-07-28,2025-11-25',
    folded: '2026-07-28\r\n 2025-11-25',
  }),
  'no header of a call': { headers: [] },
  'an old version, and all other headers wrong': {
    headers: headers({ version: '2025-11-25', method: 'ping', name: READ }),
  },
  ...more('spelling', {
    Mcp_Name: [['Mcp_Name', DELETE]],
    'Mcp.Name': [['Mcp.Name', DELETE]],
    'Mcp~Name': [['Mcp~Name', DELETE]],
    MCP_PROTOCOL_VERSION: [['MCP_PROTOCOL_VERSION', '2025-11-25']],
    'Mcp.Method': [['Mcp.Method', 'tools/list']],
    'in capitals': [['MCP-NAME', DELETE]],
    'a space before the colon': [['Mcp-Name ', DELETE]],
    'a tab before the colon': [['Mcp-Name\t', DELETE]],
    'of a parameter': [['Mcp-Param-Name', DELETE]],
  }),
  'spelling: only Mcp_Name': {
    headers: [...headers({ name: undefined }), ['Mcp_Name', READ]],
  },
  'spelling: only Mcp.Protocol.Version': {
    headers: [...headers({ version: undefined }), ['Mcp.Protocol.Version', '2026-07-28']],
  },
  ...more('taken away', {
    'the name': [['Connection', 'close, Mcp-Name']],
    'the method': [['Connection', 'Mcp-Method, close']],
    'the version': [['Connection', 'close,MCP-Protocol-Version']],
    'all, on a line of their own': [['Connection', 'mcp-protocol-version, mcp-method, mcp-name']],
    'in capitals': [['CONNECTION', 'close, MCP-NAME,MCP-PROTOCOL-VERSION']],
    'by Proxy-Connection': [['Proxy-Connection', 'close, MCP-Protocol-Version']],
    'by Keep-Alive': [['Connection', 'keep-alive, MCP-Protocol-Version']],
    'by TE': [
      ['TE', 'trailers'],
      ['Connection', 'close, TE, MCP-Protocol-Version'],
    ],
  }),
  ...bodiesOf({
    'a batch': `[${MODERN}]`,
    'a batch of an older version': `[${OLD}]`,
    'a batch of both tools': `[${JSON.stringify(oldToolCall(READ))},${OLD}]`,
    'a batch of both versions': `[${JSON.stringify(toolCall(READ))},${OLD}]`,
    'initialize, then the call': `[${JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a', version: '1' } } })},${OLD}]`,
    'the method twice': twice(MODERN, 'method', '"ping"'),
    'the name twice': twice(MODERN, 'name', `"${READ}"`),
    'the name twice, the other way round': MODERN.replace(
      '"arguments"',
      `"name":"${READ}","arguments"`,
    ).replace(`"name":"${DELETE}",`, `"name":"${DELETE}","n":1,`),
    'the params twice': twice(MODERN, 'params', `{"name":"${READ}"}`),
    'the params twice, of an older version': twice(OLD, 'params', `{"name":"${READ}"}`),
    'a notification': JSON.stringify({ ...toolCall(DELETE), id: undefined }),
    'an answer that is a call': JSON.stringify({ ...toolCall(DELETE), result: {} }),
    'an error that is a call': JSON.stringify({
      ...oldToolCall(DELETE),
      error: { code: 1, message: 'a' },
    }),
    'the name in escapes': MODERN.replace(DELETE, '\\u0064elete_note'),
    'the member in escapes': MODERN.replace('"name"', `"name":"${READ}","n\\u0061me"`),
    'a name of the prototype': MODERN.replace('"name":', `"__proto__":{"name":"${READ}"},"name":`),
    'a byte order mark': `\xef\xbb\xbf${MODERN}`,
    'white space around': `\r\n\t ${OLD} \n`,
    'two documents': `${JSON.stringify(toolCall(READ))}\n${OLD}`,
    'an envelope of an older version': MODERN.replace('2026-07-28', '2025-11-25'),
    'an envelope of a version to come': MODERN.replace('2026-07-28', '2099-01-01'),
    'half an envelope': JSON.stringify({
      ...toolCall(DELETE),
      params: {
        name: DELETE,
        _meta: { ...envelope(), 'io.modelcontextprotocol/clientCapabilities': 1 },
      },
    }),
    'a list as name': MODERN.replace(`"${DELETE}"`, `["${DELETE}"]`),
  }),
  ...Object.fromEntries(
    TYPES.map((type) => [`media type: ${type}`, { more: [['Content-Type', type]] }]),
  ),
  'a body that says it is compressed': { more: [['Content-Encoding', 'gzip']] },
  ...Object.fromEntries(
    ['GET', 'DELETE', 'PUT', 'PATCH', 'OPTIONS', 'post', 'QUERY'].map((method) => [
      `HTTP: ${method}`,
      { method },
    ]),
  ),
  ...more('override', {
    GET: [['X-HTTP-Method-Override', 'GET']],
    POST: [['X-HTTP-Method-Override', 'POST']],
    'X-HTTP-Method': [['X-HTTP-Method', 'DELETE']],
    'the method for the check': [['X-Forwarded-Method', 'GET']],
    'another method for nginx': [['X-Original-Method', 'OPTIONS']],
    'the path for the check': [['X-Forwarded-Uri', '/open']],
    'the URL for nginx': [['X-Original-URL', OTHER_URL]],
    'the path for the app': [['X-Rewrite-URL', '/open']],
    'the host': [['X-Forwarded-Host', 'open.example.com']],
    'the tools': [['X-Gatehouse-Tools', '*']],
    'an upgrade': [
      ['Upgrade', 'h2c'],
      ['Connection', 'Upgrade, HTTP2-Settings'],
      ['HTTP2-Settings', 'AAMAAABkAAQAAP__'],
    ],
    'a WebSocket': [
      ['Upgrade', 'websocket'],
      ['Connection', 'Upgrade'],
      ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ['Sec-WebSocket-Version', '13'],
    ],
  }),
  'GET that says it is POST': { method: 'GET', more: [['X-HTTP-Method-Override', 'POST']] },
  ...Object.fromEntries(PATHS.map((target) => [`target: ${target}`, { target }])),
  ...Object.fromEntries(
    PATHS.map((target) => [`target without headers: ${target}`, { target, headers: [] }]),
  ),
  chunks: { trailers: [] },
  'a name in the trailer': {
    headers: headers({ name: undefined }),
    trailers: [['Mcp-Name', READ]],
  },
  'the true name in the trailer': { trailers: [['Mcp-Name', DELETE]] },
  'all headers in the trailer': { headers: [], trailers: callHeaders(READ) },
  'an old version in the trailer': { trailers: [['MCP-Protocol-Version', '2025-11-25']] },
  'trailers that Trailer names': {
    more: [
      ['Trailer', 'Mcp-Name'],
      ['TE', 'trailers'],
    ],
    headers: headers({ name: undefined }),
    trailers: [['Mcp-Name', READ]],
  },
  'on a connection that has called another tool': { isSecond: true },
  'without headers, on a connection that has called another tool': { isSecond: true, headers: [] },
  'in a session': { session: ofSession },
  'in a session, without headers': { session: ofSession, headers: [] },
  'in a session, with an old version': {
    session: ofSession,
    headers: headers({ version: '2025-11-25' }),
  },
  'in a session, with another method': { session: ofSession, headers: headers({ method: 'ping' }) },
  'a stream of a session': { session: ofSession, method: 'GET', more: [['Last-Event-ID', '0']] },
  'a call that goes on with a stream': { more: [['Last-Event-ID', '']] },
  ...Object.fromEntries(
    ['MCP-SESSION-ID', 'Mcp_Session_Id', 'Mcp.Session.Id', 'Mcp~Session-Id', 'Mcp-Session-Id '].map(
      (name) => [
        `in a session: ${name}`,
        { session: (id: string): readonly Line[] => [[name, id]] },
      ],
    ),
  ),
  'in a session, twice': { session: (id) => [...ofSession(id), ...ofSession(id)] },
  'in two sessions': { session: (id) => [...ofSession('other'), ...ofSession(id)] },
  'in a session, and in an empty one': { session: (id) => [...ofSession(''), ...ofSession(id)] },
  'in an empty session': { more: ofSession('') },
  'in a session, with spaces around': { session: (id) => ofSession(` \t${id} \t`) },
  'in a session that Connection takes away': {
    session: (id) => [...ofSession(id), ['Connection', 'close, Mcp-Session-Id']],
  },
}

const latin1 = (text: string, encoding: BufferEncoding) =>
  Buffer.from(text, encoding).toString('latin1')
const swapped = (text: string) => Buffer.from(text, 'utf16le').swap16().toString('latin1')
const HONEST = JSON.stringify(oldToolCall(READ))
/** A call of `read_note` with members besides, in its params or beside them. */
const within = (members: string) => HONEST.replace(/\}\}$/, `,${members}}}`)
const beside = (members: string) => HONEST.replace(/\}$/, `,${members}}`)
const OTHER_PARAMS = `{"name":"${DELETE}","arguments":{}}`

/** What only who reads the body can refuse. Their headers are those of an older version, which names no tool. */
export const BODY_ATTEMPTS: Readonly<Record<string, Attempt>> = Object.fromEntries(
  Object.entries({
    'plainly the other tool': { bodies: [OLD] },
    'the name twice': { bodies: [within(`"name":"${DELETE}"`)] },
    'the name twice, once in an escape': { bodies: [within(`"n\\u0061me":"${DELETE}"`)] },
    'the name in capitals': {
      bodies: [within(`"Name":"${DELETE}"`), within(`"NAME":"${DELETE}"`)],
    },
    'the params twice': { bodies: [beside(`"params":${OTHER_PARAMS}`)] },
    'the params with a letter that folds to s': {
      bodies: [latin1(beside(`"param\u017f":${OTHER_PARAMS}`), 'utf8')],
    },
    'the params in capitals': { bodies: [beside(`"Params":${OTHER_PARAMS}`)] },
    'the method twice': { bodies: [OLD.replace('"method"', '"method":"tools/list","method"')] },
    'the method in capitals': {
      bodies: [OLD.replace('"method":"tools/call"', '"method":"tools/list","Method":"tools/call"')],
    },
    'only a method in capitals': { bodies: [OLD.replace('"method"', '"METHOD"')] },
    'a key twice, deep inside': {
      bodies: [OLD.replace('"arguments":{}', '"arguments":{"a":[{"b":1,"b":2}]}')],
    },
    'another member': {
      bodies: [beside(`"call":${OTHER_PARAMS}`), OLD.replace(/\}$/, ',"result":{}}')],
    },
    'a byte order mark': { bodies: [latin1(`\uFEFF${OLD}`, 'utf8')] },
    'UTF-16': {
      bodies: [latin1(OLD, 'utf16le'), latin1(`\uFEFF${OLD}`, 'utf16le'), swapped(`\uFEFF${OLD}`)],
    },
    'bytes that are no UTF-8': {
      bodies: [
        OLD.replace('"arguments":{}', '"arguments":{"a":"\xff"}'),
        OLD.replace(DELETE, `${DELETE}\xc0\x80`),
      ],
    },
    NaN: { bodies: [OLD.replace('"arguments":{}', '"arguments":{"a":NaN}')] },
    'a name with NUL': { bodies: [OLD.replace(DELETE, `${DELETE}\\u0000`)] },
    'a name in other letters': {
      bodies: [OLD.replace(DELETE, 'DELETE_NOTE'), OLD.replace(DELETE, ` ${DELETE}`)],
    },
    'two documents': { bodies: [`${HONEST}${OLD}`, `${HONEST}\n${OLD}`, `${OLD}${HONEST}`] },
    'a batch': { bodies: [`[${OLD}]`, `[${HONEST},${OLD}]`] },
    gzip: { bodies: [gzipSync(OLD).toString('latin1')], more: [['Content-Encoding', 'gzip']] },
    'text/plain': { bodies: [OLD], more: [['Content-Type', 'text/plain']] },
    'no media type': { bodies: [OLD], more: [['Content-Type', '']] },
    'an id that is null': { bodies: [OLD.replace('"id":1', '"id":null')] },
    'no id': { bodies: [OLD.replace('"id":1,', '')] },
    nothing: { bodies: [''] },
    'no object': { bodies: [`"${DELETE}"`, 'null', '1'] },
    'headers of the other tool': {
      bodies: [OLD],
      more: [
        ['Mcp-Method', 'tools/call'],
        ['Mcp-Name', READ],
      ],
    },
  } satisfies Record<string, Attempt>).map(([title, attempt]) => [
    `only the body: ${title}`,
    { headers: [['MCP-Protocol-Version', '2025-06-18']], ...attempt },
  ]),
)

/** A request with a key. What it names itself replaces the headers that every client sends. */
export function request(
  key: string,
  headers: readonly Line[],
  more: Partial<RawRequest> = {},
): RawRequest {
  const usual: readonly Line[] = [
    ['Host', 'app.example.com'],
    ['Authorization', `APIKey ${key}`],
    ['Accept', 'application/json, text/event-stream'],
    ['Content-Type', 'application/json'],
    ['Connection', 'close'],
  ]
  const own = new Set(headers.map(([name]) => name.toLowerCase()))
  const all = [...usual.filter(([name]) => !own.has(name.toLowerCase())), ...headers]
  return { method: 'POST', target: '/mcp', headers: all, body: '', ...more }
}

/** The requests of an attempt of somebody with a key, one for each body. */
export function requestsOf(attempt: Attempt, key: string, session?: string): readonly RawRequest[] {
  const { headers = callHeaders('read_note'), more = [], bodies = BODIES } = attempt
  const own = session === undefined ? [] : (attempt.session?.(session) ?? [])
  const { method = 'POST', target = '/mcp', trailers } = attempt
  return bodies.map((body) =>
    request(key, [...headers, ...more, ...own], {
      ...{ method, target, trailers, body },
      // In a session, GET opens a stream.
      isStream: method === 'GET',
      isLast: more.some(([, value]) => value === 'websocket'),
    }),
  )
}

const IS_SESSION = /^mcp.session.id *$/i

/** The same in a session, if it names none. */
export const withSession = (one: RawRequest, session: string): RawRequest =>
  one.headers.some(([name]) => IS_SESSION.test(name))
    ? one
    : { ...one, headers: [...one.headers, ['Mcp-Session-Id', session]] }

export const endsSession = ({ method }: Pick<Attempt, 'method'>) => method === 'DELETE'
