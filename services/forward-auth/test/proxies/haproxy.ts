import { type Dialect, PROXIES } from '@gatehouse/service-kit/proxies'
import type { Test } from 'tap'
import { blockOf } from '../../../../scripts/test/markdown.ts'
import { startProcess } from '../helpers/process.ts'
import {
  addresses,
  type Changes,
  FINDINGS,
  forwardShape,
  PROXY_HEADERS,
  type ProxyUnderTest,
  readExample,
  type Surroundings,
  write,
} from './kit.ts'

const WITHOUT_TLS: Changes = [
  ['bind :443 ssl crt /etc/ssl/example.com.pem', 'bind :443 # /etc/ssl/example.com.pem'],
  ['X-Forwarded-Proto https', 'X-Forwarded-Proto http'],
]

const argsOf = (file: string) => ['-db', '-f', file]

async function start(t: Test, around: Surroundings): Promise<void> {
  const { folder, port } = around
  const lua = write(around, 'haproxy.lua', [])
  const changes = [
    ...addresses(around),
    ['/etc/ssl/example.com.pem', around.certificate.pem],
    ['/etc/haproxy/haproxy.lua', lua],
    ['bind :443', `bind 127.0.0.1:${port}`],
  ] as const
  const file = write(around, 'haproxy.cfg', changes, WITHOUT_TLS)
  await startProcess(t, { command: 'haproxy', args: argsOf(file), folder, port })
}

const [dialect] = PROXIES.haproxy.dialects as [Dialect]

export const haproxy: ProxyUnderTest = {
  start,
  answers: {
    'a check that a client makes itself': 303,
    'a condition in a header': 401,
    'a host in the target': 400,
  },
  dropsSpellings: true,
  withoutMcpProxy: { 'haproxy.cfg': [['path -m str /mcp', 'path -m str /proxied']] },
  passesRemote: { 'haproxy.lua': [['local IDENTITY = {', "$&'remote-user',"]] },
  shapes: [forwardShape('haproxy', { dialect, path: '/authz/haproxy', method: 'HEAD' })],
  lines() {
    const [lua, cfg] = [readExample('haproxy.lua'), readExample('haproxy.cfg')]
    const asked = /local ASKED = \{(.*?)\n\}/s.exec(lua)?.[1] ?? ''
    const own = [...lua.matchAll(/\['(x-[\w-]+)'\] = \{/g)].map(([, name = '']) => name)
    const set = [...cfg.matchAll(/http-request set-header (\S+) /g)].map(([, name = '']) => name)
    const told = set.filter((name) => asked.includes(`'${name.toLowerCase()}'`))
    const removes = PROXY_HEADERS.filter(
      (name) => !asked.includes(`'${name}'`) && !own.includes(name),
    )
    return [[...own, ...told], removes]
  },
  mtls: {
    command: 'haproxy',
    args: argsOf,
    listen: (port) => ['bind :443', `bind 127.0.0.1:${port}`],
  },
  hidesSession: () => ({
    'haproxy.cfg': [
      [
        '  server app 127.0.0.1:8080',
        `${blockOf('docs/haproxy.md', 'haproxy hidden-session')}  server app 127.0.0.1:8080`,
      ],
    ],
  }),
  hidesCalls: [
    {
      'haproxy.lua': [
        [
          "  'last-event-id', 'mcp-method', 'mcp-name', 'mcp-protocol-version', 'mcp-session-id',\n",
          '',
        ],
      ],
    },
    /no mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id:/,
  ],
  mistakes: (
    [
      [
        'no cookie of the check',
        'lua',
        [['FRAMING = { ', "FRAMING = { 'set-cookie', "]],
        FINDINGS.cookieLost,
      ],
      ['no Sec-Fetch-Dest', 'lua', [["'sec-fetch-dest', ", '']], FINDINGS.navigationUnseen],
      [
        'no check',
        'cfg',
        [
          ['http-request lua.gatehouse', '# http-request lua.gatehouse'],
          ['http-request deny deny_status 503 unless', '# http-request deny unless'],
        ],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not set',
        'lua',
        [["  'x-forwarded-user', ", '  ']],
        /does not receive x-forwarded-user/,
      ],
      ['no Cookie', 'lua', [["'cookie', ", '']], /receives no Cookie/],
      [
        'another host',
        'cfg',
        [['X-Forwarded-Host %[req.hdr(host)]', 'X-Forwarded-Host wiki.example.com']],
        /told the host wiki.example.com, not app.example.com/,
      ],
      [
        'the wrong scheme',
        'cfg',
        [['X-Forwarded-Proto https', 'X-Forwarded-Proto http']],
        /told the scheme http, not https/,
      ],
      ['the path without its query', 'lua', [['txn.sf:pathq()', 'txn.sf:path()']], /told the path/],
      ['always one method', 'lua', [['txn.sf:method()', "'GET'"]], /told the method GET, not POST/],
      [
        'no address of the client',
        'lua',
        [["'x-forwarded-for', ", '']],
        /receives no X-Forwarded-For/,
      ],
      [
        'the address of the client as it likes',
        'cfg',
        [
          ['http-request set-header X-Forwarded-For %[src]', ''],
          ['|x-forward.*|', '|'],
        ],
        /can forge X-Forwarded-For/,
      ],
      [
        'no Accept',
        'lua',
        [
          ["'accept', ", ''],
          ["'sec-fetch-mode', ", ''],
        ],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      [
        'small buffers',
        'cfg',
        [['tune.bufsize 65536', 'tune.bufsize 8192']],
        /With 12 kB of cookies/,
      ],
      [
        'Connection',
        'cfg',
        [['http-request del-header Connection', '']],
        /take x-forwarded-user away/,
      ],
      [
        'Connection but for some names',
        'cfg',
        [
          [
            'http-request del-header Connection',
            'http-request deny if { req.hdr(connection) -i -m beg x-f }',
          ],
        ],
        /take x-authenticated-user away/,
      ],
      [
        'every upgrade',
        'cfg',
        [
          [
            'http-request deny deny_status 400 if { req.hdr(upgrade) -m found } !for-websocket or { req.hdr_cnt(upgrade) gt 1 }',
            '',
          ],
        ],
        /leave every check behind/,
      ],
      [
        'no overrides',
        'lua',
        [["  'x-http-method', 'x-http-method-override', 'x-method-override',\n", '']],
        /app receives x-http-method/,
      ],
      [
        'headers with tildes',
        'cfg',
        [['del-header [^a-zA-Z0-9-] -m reg', 'del-header [_.] -m reg']],
        /other spellings/,
      ],
      [
        'headers with underscores',
        'cfg',
        [['http-request del-header [^a-zA-Z0-9-] -m reg', '']],
        /other spellings/,
      ],
      [
        'no Location',
        'lua',
        [['FRAMING = { ', "FRAMING = { 'location', "]],
        /receives 302 without Location/,
      ],
      [
        'no WWW-Authenticate',
        'lua',
        [['FRAMING = { ', "FRAMING = { 'www-authenticate', "]],
        /401 without WWW-Authenticate/,
      ],
      [
        'a check before the sign-in pages',
        'cfg',
        [['if for-auth or for-metadata', 'if for-metadata']],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([title, file, changes, finding]) => [title, { [`haproxy.${file}`]: changes }, finding]),
}
