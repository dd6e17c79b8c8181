import { readFileSync, writeFileSync } from 'node:fs'
import { forwardDialect } from '@gatehouse/service-kit/proxies'
import type { Test } from 'tap'
import { HEADER_NAMES } from '../../../../packages/gate/src/header-names.ts'
import { blockOf } from '../../../../scripts/test/markdown.ts'
import { startProcess } from '../helpers/process.ts'
import {
  addresses,
  type Changes,
  certificateFiles,
  FINDINGS,
  forwardShape,
  type ProxyUnderTest,
  readExample,
  type Surroundings,
  write,
} from './kit.ts'

const WITHOUT_TLS: Changes = [
  [
    'app.example.com, admin.example.com {\n\timport certificate',
    'http://app.example.com, http://admin.example.com {',
  ],
  ['auth.example.com {\n\timport certificate', 'http://auth.example.com {'],
]

const argsOf = (file: string) => ['run', '--config', file, '--adapter', 'caddyfile']

async function start(t: Test, around: Surroundings): Promise<void> {
  const { folder, port, isPlain } = around
  const globals = `{
    admin off
    auto_https disable_redirects
    ${isPlain ? 'http_port' : 'https_port'} ${port}
    default_bind 127.0.0.1
  }`
  const changes = [...addresses(around), ...certificateFiles(around)]
  const file = write(around, 'Caddyfile', changes, WITHOUT_TLS)
  writeFileSync(file, `${globals}\n${readFileSync(file, 'utf8')}`)
  await startProcess(t, { command: 'caddy', args: argsOf(file), folder, port })
}

export const caddy: ProxyUnderTest = {
  start,
  answers: {
    // It answers with nothing where it has no site.
    'a host that is not configured': 200,
    'a host with a dot at the end': 200,
    'a host in the target': 400,
    'Gatehouse is down': 502,
  },
  sendsBytes: true,
  withoutMcpProxy: { Caddyfile: [['orig_uri.path} /mcp', 'orig_uri.path} /proxied']] },
  passesRemote: { Caddyfile: [['copy_headers ', '$&Remote-User ']] },
  shapes: [forwardShape('caddy', { dialect: forwardDialect }, { Via: '2.0 Caddy' })],
  lines() {
    const text = readExample('Caddyfile')
    const removed = [...text.matchAll(/request_header -(\S+)/g)].map(([, name = '']) => name)
    const originals = HEADER_NAMES.read.filter((name) => name.startsWith('x-original-'))
    const removes = removed.flatMap((name) => (name === 'X-Original-*' ? originals : [name]))
    // forward_auth and reverse_proxy write these.
    const built = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-forwarded-method']
    const written = [...text.matchAll(/\theader_up (\S+) /g)].map(([, name = '']) => name)
    const sets = [...built, ...written].map((name) => name.toLowerCase())
    return [sets, removes.filter((name) => !sets.includes(name.toLowerCase()))]
  },
  mtls: {
    command: 'caddy',
    args: argsOf,
    listen: (port) => [
      'certs.example.com {',
      `{\n\tadmin off\n\tauto_https off\n}\nhttps://certs.example.com:${port} {`,
    ],
  },
  hidesSession: () => ({
    Caddyfile: [
      ['\t\treverse_proxy 127.0.0.1:8080\n', blockOf('docs/caddy.md', 'caddyfile hidden-session')],
    ],
  }),
  hidesCalls: [
    {
      Caddyfile: [
        ['request_header -Forwarded', 'request_header -Mcp-*\n\trequest_header -Forwarded'],
      ],
    },
    /no mcp-protocol-version, mcp-method, mcp-name, mcp-session-id:/,
  ],
  mistakes: (
    [
      [
        'no cookie of the sign-in pages',
        [['auth.example.com {', 'auth.example.com {\n\theader -Set-Cookie']],
        FINDINGS.pageCookieLost,
      ],
      [
        'no Cookie to the sign-in pages',
        [['auth.example.com {', 'auth.example.com {\n\trequest_header -Cookie']],
        FINDINGS.pageCookieUnseen,
      ],
      [
        'no cookie of the check',
        [['copy_headers', 'header_down -Set-Cookie\n\t\tcopy_headers']],
        FINDINGS.cookieLost,
      ],
      [
        'no Sec-Fetch-Dest',
        [['copy_headers', 'header_up -Sec-Fetch-Dest\n\t\tcopy_headers']],
        FINDINGS.navigationUnseen,
      ],
      [
        'no check',
        [['forward_auth', '@never path /never\n\tforward_auth @never']],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['copy_headers X-Forwarded-User', 'copy_headers']],
        /forge x-forwarded-user for the app/,
      ],
      [
        'no Cookie',
        [['copy_headers', 'header_up -Cookie\n\t\tcopy_headers']],
        /receives no Cookie/,
      ],
      [
        'another host',
        [['copy_headers', 'header_up X-Forwarded-Host {upstream_hostport}\n\t\tcopy_headers']],
        /told the host/,
      ],
      [
        'the wrong scheme',
        [['copy_headers', 'header_up X-Forwarded-Proto http\n\t\tcopy_headers']],
        /told the scheme http, not https/,
      ],
      [
        'the path without its query',
        [['X-Forwarded-Uri {http.request.orig_uri}', 'X-Forwarded-Uri {path}']],
        /told the path/,
      ],
      [
        'always one method',
        [['copy_headers', 'header_up X-Forwarded-Method GET\n\t\tcopy_headers']],
        /told the method GET, not POST/,
      ],
      [
        'no address of the client',
        [['copy_headers', 'header_up -X-Forwarded-For\n\t\tcopy_headers']],
        /receives no X-Forwarded-For/,
      ],
      [
        'the address of the client as it likes',
        [['copy_headers', 'header_up X-Forwarded-For {header.X-Forwarded-For}\n\t\tcopy_headers']],
        /can forge X-Forwarded-For/,
      ],
      [
        'no Accept',
        [['copy_headers', 'header_up -Accept\n\t\theader_up -Sec-Fetch-Mode\n\t\tcopy_headers']],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      ['a portal that is not there', [['/portals/main?', '/portals/nope?']], /FWA_NOT_FOUND/],
      [
        'no query',
        [['uri /portals/main?policy={policy}', 'uri /portals/main']],
        /query of the client/,
      ],
      ['no guard', [['\timport guard\n', '']], /leave every check behind/],
      ['Connection', [['request_header @other -Connection', '']], /take x-forwarded-user away/],
      ['a forged address', [['request_header -X-Real-IP', '']], /forge x-real-ip for the app/],
      [
        'another host for the sign-in pages',
        [
          [
            '# The sign-in pages.\nauth.example.com {',
            'auth.example.com {\n\trequest_header Host other.test',
          ],
        ],
        /sign-in pages at auth.example.com are told another host/,
      ],
    ] as const
  ).map(([title, changes, finding]) => [title, { Caddyfile: changes }, finding]),
}
