import { type Dialect, PROXIES } from '@gatehouse/service-kit/proxies'
import type { Test } from 'tap'
import { documentsOf, membersOf } from '../../../../scripts/test/yaml.ts'
import { startProcess } from '../helpers/process.ts'
import {
  type Changes,
  certificateFiles,
  FINDINGS,
  PROXY_HEADERS,
  type ProxyUnderTest,
  type ProxyVariant,
  readExample,
  type Surroundings,
  write,
} from './kit.ts'

/** The part of an Envoy configuration that says how TLS is spoken, and what follows it. */
const TLS =
  / {8}- transport_socket:\n[\s\S]*?\n {10}filters:/.exec(readExample('envoy.yaml', []))?.[0] ?? ''
const WITHOUT_TLS: Changes = [
  [TLS, TLS.replaceAll(/^/gm, '# ').replace(/# +filters:$/, '        - filters:')],
]

const addressesOf = (around: Surroundings): Changes => [
  ...certificateFiles(around),
  ['port_value: 4181', `port_value: ${around.gatehousePort}`],
  ['port_value: 8080', `port_value: ${around.appPort}`],
  ['address: 0.0.0.0, port_value: 443', `address: 127.0.0.1, port_value: ${around.port}`],
]

async function start(t: Test, around: Surroundings): Promise<void> {
  const file = write(
    around,
    'envoy.yaml',
    [['http://127.0.0.1:4181', `http://127.0.0.1:${around.gatehousePort}`], ...addressesOf(around)],
    WITHOUT_TLS,
  )
  await run(t, file, around)
}

async function startByGrpc(t: Test, around: Surroundings): Promise<void> {
  const file = write(
    around,
    'envoy-grpc.yaml',
    [['port_value: 4182', `port_value: ${around.grpcPort}`], ...addressesOf(around)],
    WITHOUT_TLS,
  )
  await run(t, file, around)
}

async function run(t: Test, file: string, { folder, port }: Surroundings): Promise<void> {
  await startProcess(t, { command, args: argsOf(file), folder, port })
}

const command = process.env.ENVOY ?? 'envoy'
const argsOf = (file: string) => [
  '-c',
  file,
  '--concurrency',
  '1',
  '--disable-hot-restart',
  '-l',
  'warning',
]

/** What moves the path of the MCP proxy. */
const MOVED = ['match: { path: /mcp }', 'match: { path: /proxied }'] as const

const answers: ProxyUnderTest['answers'] = {
  'a check that a client makes itself': 303,
  'a host that is not configured': 404,
  'a host with a dot at the end': 404,
  'a condition in a header': 401,
  'Connection that lists headers of a check': 400,
}
const [dialect] = PROXIES.envoy.dialects as [Dialect]
const REQUEST = {
  dialect,
  method: 'POST',
  path: '/authz/envoy/policy/any/a/b?q=1',
  needs: [],
}

/** The same proxy, over gRPC. */
export const envoyGrpc: ProxyVariant = {
  start: startByGrpc,
  variable: 'ENVOY',
  answers,
  isToldCookies: true,
  withoutMcpProxy: { 'envoy-grpc.yaml': [MOVED] },
  passesRemote: {},
}

export const envoy: ProxyUnderTest = {
  start,
  variable: 'ENVOY',
  answers,
  withoutMcpProxy: { 'envoy.yaml': [MOVED] },
  passesRemote: {
    'envoy.yaml': [
      [
        '- { exact: x-gatehouse-tools,',
        '- { exact: remote-user }\n                              $&',
      ],
    ],
  },
  shapes: [
    {
      ...REQUEST,
      proxy: 'envoy, by default',
      headers: { Host: 'app.example.com', 'Content-Length': '0' },
    },
    {
      ...REQUEST,
      proxy: 'envoy, with headers_to_add',
      headers: {
        Host: 'app.example.com:443',
        'Content-Length': '0',
        'X-Forwarded-Proto': 'https',
        'X-Envoy-Internal': 'true',
      },
    },
  ],
  lines() {
    const all = documentsOf(readExample('envoy.yaml'))
    const added = (membersOf(all, 'headers_to_add') as { key: string }[][]).flat()
    const sets = added.map(({ key }) => key)
    const seen = (membersOf(all, 'allowed_headers') as { patterns: { exact?: string }[] }[])[0]
    const exact = seen?.patterns.map(({ exact }) => exact) ?? []
    return [sets, PROXY_HEADERS.filter((name) => !exact.includes(name) && !sets.includes(name))]
  },
  mtls: {
    command,
    args: argsOf,
    listen: (port) => [
      'address: 0.0.0.0, port_value: 443',
      `address: 127.0.0.1, port_value: ${port}`,
    ],
  },
  hidesCalls: [
    { 'envoy.yaml': [['- { exact: mcp-session-id, ignore_case: true }\n', '\n']] },
    /no mcp-session-id:/,
  ],
  mistakes: (
    [
      [
        'no cookie of the check',
        [['- { exact: set-cookie, ignore_case: true }', '']],
        FINDINGS.cookieLost,
      ],
      [
        'no Sec-Fetch-Dest',
        [['- { exact: sec-fetch-dest, ignore_case: true }', '']],
        FINDINGS.navigationUnseen,
      ],
      [
        'no check',
        [
          [
            'gatehouse-admins: *off\n                    - name: admin',
            'gatehouse-admins: *off\n                        gatehouse-any: *off\n                    - name: admin',
          ],
        ],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['- { exact: x-forwarded-user, ignore_case: true }', '']],
        /forge x-forwarded-user for the app/,
      ],
      ['no Cookie', [['- { exact: cookie, ignore_case: true }', '']], /receives no Cookie/],
      ['the wrong scheme', [['"%REQ(:SCHEME)%"', 'http']], /told the scheme http, not https/],
      [
        'another path',
        [
          [
            'path_prefix: /portals/main/authz/envoy/policy/any',
            'path_prefix: /portals/main/authz/envoy/policy/any/app',
          ],
        ],
        /told the path/,
      ],
      [
        'no Accept',
        [
          ['- { exact: accept, ignore_case: true }', ''],
          ['- { exact: sec-fetch-mode, ignore_case: true }', ''],
        ],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      [
        'the check of another service',
        [['cluster: gatehouse, timeout: 2s', 'cluster: app, timeout: 2s']],
        /answers 200 without a check/,
      ],
      [
        'no address of the client',
        [
          [
            '{ key: x-forwarded-proto, value: "%REQ(:SCHEME)%" }',
            '{ key: x-forwarded-proto, value: "%REQ(:SCHEME)%" }',
          ],
          ['key: x-forwarded-for,', 'key: x-client,'],
        ],
        /receives no X-Forwarded-For/,
      ],
      [
        'no overrides',
        [['- { exact: x-rewrite-url, ignore_case: true }', '']],
        /app receives x-rewrite-url/,
      ],
      [
        'the host of the upstream at the app',
        [
          [
            'route: { cluster: app, timeout: 0s }',
            'route: { cluster: app, timeout: 0s, host_rewrite_literal: upstream }',
          ],
        ],
        /told the host upstream/,
      ],
      [
        'small buffers',
        [['stat_prefix: https', 'stat_prefix: https\n                max_request_headers_kb: 8']],
        /With 12 kB of cookies/,
      ],
      [
        'headers with underscores',
        [
          ['REJECT_REQUEST', 'ALLOW'],
          ['[^:].*[^a-zA-Z0-9-].*', 'none'],
        ],
        /other spellings/,
      ],
      [
        'a portal that is not there',
        [['path_prefix: /portals/main/', 'path_prefix: /portals/nope/']],
        /FWA_NOT_FOUND/,
      ],
      [
        'a check before the sign-in pages',
        [
          [
            'gatehouse-any: *off\n                        gatehouse-admins: *off',
            'gatehouse-admins: *off',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([title, changes, finding]) => [title, { 'envoy.yaml': changes }, finding]),
}
