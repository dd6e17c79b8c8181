import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Dialect, PROXIES } from '@gatehouse/service-kit/proxies'
import type { Test } from 'tap'
import { blockOf } from '../../../../scripts/test/markdown.ts'
import { temporaryPaths } from '../../../../scripts/test/nginx.ts'
import { startProcess } from '../helpers/process.ts'
import {
  addresses,
  certificateFiles,
  FINDINGS,
  type ProxyUnderTest,
  readExample,
  type Surroundings,
  write,
} from './kit.ts'

const argsOf = (file: string, folder: string) => [
  '-e',
  'stderr',
  '-c',
  file,
  '-g',
  `daemon off; master_process off; pid ${folder}/nginx.pid;`,
]

async function start(t: Test, around: Surroundings): Promise<void> {
  const { folder, port } = around
  const changes = [
    ...addresses(around),
    ...certificateFiles(around),
    ['listen 443', `listen 127.0.0.1:${port}`],
    ['http {', `http { access_log off; ${temporaryPaths(folder)}`],
  ] as const
  const file = write(around, 'nginx.conf', changes, [['listen 443 ssl http2', 'listen 443']])
  await startProcess(t, { command: 'nginx', args: argsOf(file, folder), folder, port })
}

/** A line more for nginx at the host of the sign-in pages. */
const atSignIn = (line: string) => {
  const start = 'server_name auth.example.com;\n\n    location / {'
  return [start, `${start} ${line}`] as const
}

const [dialect, ingressDialect] = PROXIES.nginx.dialects as [Dialect, Dialect]
const ORIGINAL = {
  Host: '127.0.0.1:4181',
  'X-Original-Method': 'POST',
  'X-Original-URL': 'https://app.example.com/a/b?q=1',
}
const needs = ['x-original-method', 'x-original-url']
const PASSED_ON =
  '      proxy_set_header Host $host;\n      proxy_set_header X-Forwarded-For $remote_addr;\n      proxy_set_header X-Forwarded-Host $host;\n      proxy_set_header X-Forwarded-Proto'

export const nginx: ProxyUnderTest = {
  start,
  answers: { 'a condition in a header': 401, 'Gatehouse is down': 500 },
  dropsSpellings: true,
  sendsBytes: true,
  withoutMcpProxy: { 'nginx.conf': [['location = /mcp {', 'location = /proxied {']] },
  passesRemote: {
    'nginx.conf': [
      ['auth_request /_gatehouse;', '$&auth_request_set $remote $upstream_http_remote_user;'],
      ['proxy_pass http://app;', '$&proxy_set_header Remote-User $remote;'],
    ],
  },
  shapes: [
    {
      proxy: 'nginx',
      dialect,
      method: 'GET',
      path: '/authz/nginx',
      headers: { ...ORIGINAL, 'X-Gatehouse-Answer': 'sealed', 'X-Forwarded-For': '203.0.113.7' },
      needs,
    },
    {
      proxy: 'ingress-nginx',
      dialect: ingressDialect,
      method: 'GET',
      path: '/authz/ingress-nginx',
      headers: {
        ...ORIGINAL,
        'X-Auth-Request-Redirect': '/a/b?q=1',
        'X-Sent-From': 'nginx-ingress-controller',
        'X-Real-IP': '203.0.113.7',
      },
      needs,
    },
  ],
  lines() {
    const text =
      readExample('nginx.conf').split('location = /_gatehouse {')[1]?.split('\n    }')[0] ?? ''
    const lines = [...text.matchAll(/proxy_set_header (\S+) (.+);/g)]
    const namesOf = (isEmpty: boolean) =>
      lines.filter(([, , value]) => (value === '""') === isEmpty).map(([, name = '']) => name)
    return [namesOf(false), namesOf(true)]
  },
  mtls: {
    command: 'nginx',
    args: (file) => {
      const folder = join(file, '..')
      writeFileSync(`${file}.http`, `access_log off; ${temporaryPaths(folder)}`)
      return argsOf(file, folder)
    },
    listen: (port) => ['listen 443', `listen 127.0.0.1:${port}`],
  },
  hidesSession: () => ({
    'nginx.conf': [
      [
        '  # A host that is not listed',
        `${blockOf('docs/nginx.md', 'nginx hidden-session')}\n  # A host that is not listed`,
      ],
      [PASSED_ON, `      proxy_set_header Cookie $own_cookies;\n${PASSED_ON}`],
    ],
  }),
  hidesCalls: [
    {
      'nginx.conf': [
        [
          'proxy_set_header X-Original-Method $',
          'proxy_set_header Mcp-Name ""; proxy_set_header X-Original-Method $',
        ],
      ],
    },
    /no mcp-name:/,
  ],
  mistakes: (
    [
      [
        'no cookie of the sign-in pages',
        [atSignIn('proxy_hide_header Set-Cookie;')],
        FINDINGS.pageCookieLost,
      ],
      [
        'no Cookie to the sign-in pages',
        [atSignIn('proxy_set_header Cookie "";')],
        FINDINGS.pageCookieUnseen,
      ],
      [
        'no cookie of the check',
        [['location @refused {', 'location @refused { proxy_hide_header Set-Cookie;']],
        FINDINGS.cookieLost,
      ],
      [
        'no Sec-Fetch-Dest',
        [
          [
            'proxy_set_header X-Original-Method',
            'proxy_set_header Sec-Fetch-Dest ""; proxy_set_header X-Original-Method',
          ],
        ],
        FINDINGS.navigationUnseen,
      ],
      ['no check', [['auth_request /_gatehouse;', '']], /answers 200 without a check/],
      [
        'an identity header that is not set',
        [['proxy_set_header X-Forwarded-User $user;', '']],
        /forge x-forwarded-user for the app/,
      ],
      [
        'an identity header that is not copied',
        [
          [
            'auth_request_set $displayname $upstream_http_x_forwarded_displayname;',
            'set $displayname "";',
          ],
        ],
        /does not receive x-forwarded-displayname/,
      ],
      [
        'no Cookie',
        [
          [
            'proxy_set_header X-Original-Method',
            'proxy_set_header Cookie ""; proxy_set_header X-Original-Method',
          ],
        ],
        /receives no Cookie/,
      ],
      [
        'the host of the upstream',
        [['$scheme://$host$request_uri', '$scheme://$proxy_host$request_uri']],
        /told the host .*gatehouse/,
      ],
      [
        'the wrong scheme',
        [['X-Original-URL $scheme', 'X-Original-URL http']],
        /told the scheme http, not https/,
      ],
      [
        'the path without its query',
        [['$scheme://$host$request_uri', '$scheme://$host$uri']],
        /told the path/,
      ],
      [
        'the method of the subrequest',
        [
          [
            'proxy_set_header X-Original-Method $request_method;',
            'proxy_set_header X-Original-Method GET;',
          ],
        ],
        /told the method GET, not POST/,
      ],
      [
        'the address of the client as it likes',
        [['X-Forwarded-For $remote_addr', 'X-Forwarded-For $http_x_forwarded_for']],
        /can forge X-Forwarded-For/,
      ],
      [
        'small buffers for requests',
        [['large_client_header_buffers 4 32k;', '']],
        /With 12 kB of cookies/,
      ],
      [
        'small buffers for answers',
        [
          ['proxy_buffer_size 32k;', ''],
          ['proxy_buffers 8 32k;', ''],
        ],
        /header of several kB, the proxy answers 50/,
      ],
      [
        'the host of the upstream at the app',
        [['proxy_send_timeout 1h;\n      proxy_set_header Host $host;', '']],
        /told the host app, not app\.example\.com/,
      ],
      [
        'every upgrade',
        [
          ['proxy_set_header Upgrade $upgrade;', 'proxy_set_header Upgrade $http_upgrade;'],
          [
            'map $upgrade $upgrade_connection {',
            'map $http_upgrade $upgrade_connection { default upgrade;',
          ],
        ],
        /leave every check behind/,
      ],
      ['a forged address', [['proxy_set_header X-Real-IP "";', '']], /forge x-real-ip for the app/],
      [
        'another path at the app',
        [['proxy_set_header X-Original-URL "";', '']],
        /app receives x-original-url, which the check does not/,
      ],
      ['no redirect', [['error_page 403 = @refused;', '']], /receives 403 without Location/],
      [
        'another host for the sign-in pages',
        [
          [
            'proxy_set_header Host $host;\n      proxy_set_header Connection "";\n      proxy_set_header X-Forwarded-Host $host;',
            '',
          ],
        ],
        /sign-in pages at auth.example.com are told another host/,
      ],
      [
        'a check before the sign-in pages',
        [
          [
            'server_name auth.example.com;',
            'server_name auth.example.com; auth_request /_check; location = /_check { internal; proxy_pass http://gatehouse/portals/main/authz/nginx?policy=any; proxy_set_header X-Gatehouse-Answer sealed; proxy_set_header X-Original-Method GET; proxy_set_header X-Original-URL $scheme://$host$request_uri; }',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([title, changes, finding]) => [title, { 'nginx.conf': changes }, finding]),
}
