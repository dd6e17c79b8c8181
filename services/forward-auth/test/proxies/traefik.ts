import { forwardDialect } from '@gatehouse/service-kit/proxies'
import type { Test } from 'tap'
import { HEADER_NAMES } from '../../../../packages/gate/src/header-names.ts'
import { until } from '../../../../scripts/test/until.ts'
import { documentsOf, membersOf } from '../../../../scripts/test/yaml.ts'
import { createClient } from '../helpers/client.ts'
import { startProcess } from '../helpers/process.ts'
import {
  addresses,
  certificateFiles,
  FINDINGS,
  forwardShape,
  type ProxyUnderTest,
  readExample,
  type Surroundings,
  write,
} from './kit.ts'

const command = process.env.TRAEFIK ?? 'traefik'

async function start(t: Test, around: Surroundings): Promise<void> {
  const { folder, port } = around
  const changes = [...addresses(around), ...certificateFiles(around)]
  const file = write(around, 'traefik.yaml', changes, [['      tls: {}\n', '']])
  const settings = write(around, 'traefik-static.yaml', [
    ['":443"', `127.0.0.1:${port}`],
    ['/etc/traefik/traefik.yaml', file],
    ['providers:', 'global: { checkNewVersion: false, sendAnonymousUsage: false }\nproviders:'],
  ])
  await startProcess(t, { command, args: [`--configFile=${settings}`], folder, port })
  await waitForRoutes(around)
}

/** Traefik listens before it has read its routes. */
async function waitForRoutes(around: Surroundings) {
  const { port, certificate, isPlain, domain = 'example.com' } = around
  const ask = createClient(port, isPlain ? undefined : certificate.rootPem)
  await until(async () => {
    const answer = await ask({ host: `app.${domain}` }).catch(() => undefined)
    return answer && answer.status !== 404
  })
}

/** A middleware that changes headers before the check. */
function changed(headers: string): readonly (readonly [string, string])[] {
  return [
    ['middlewares: [without-forged, gatehouse]', 'middlewares: [wrong, gatehouse]'],
    [
      '    gatehouse:\n      forwardAuth',
      `    wrong: { headers: { ${headers} } }\n    gatehouse:\n      forwardAuth`,
    ],
  ]
}

const shape = (title: string, rest: object, headers: Record<string, string>) =>
  forwardShape(`traefik, ${title}`, { dialect: forwardDialect, ...rest }, headers)

export const traefik: ProxyUnderTest = {
  start,
  variable: 'TRAEFIK',
  answers: {
    'a check that a client makes itself': 303,
    'a host that is not configured': 404,
    'Gatehouse is down': 500,
  },
  sendsBytes: true,
  withoutMcpProxy: { 'traefik.yaml': [['Path(`/mcp`)', 'Path(`/proxied`)']] },
  passesRemote: { 'traefik.yaml': [['            X-Forwarded-User,', '$&Remote-User,']] },
  shapes: [
    shape('trustForwardHeader unset', {}, { 'X-Forwarded-Server': 'edge' }),
    shape('trustForwardHeader false', {}, { 'X-Forwarded-Port': '443' }),
    shape(
      'trustForwardHeader true behind another proxy',
      {},
      {
        'X-Forwarded-Port': '8443',
        'X-Forwarded-Prefix': '/evil',
        'X-Forwarded-For': '203.0.113.7, 10.0.0.9',
        'X-Real-Ip': '10.0.0.9',
      },
    ),
    shape('preserveRequestMethod', { method: 'POST' }, { 'Content-Length': '0' }),
    shape('websocket', {}, { 'X-Forwarded-Proto': 'wss' }),
  ],
  lines() {
    const [removed = {}] = membersOf(
      documentsOf(readExample('traefik.yaml')),
      'customRequestHeaders',
    )
    // The entry point drops those of a client, and forwardAuth passes on what it wrote itself.
    const built = HEADER_NAMES.read.filter((name) => name.startsWith('x-forwarded-'))
    const written = built.filter((name) => name !== 'x-forwarded-prefix')
    const sets = [...written, 'x-forwarded-port', 'x-real-ip']
    return [sets, [...Object.keys(removed as object), 'x-forwarded-prefix']]
  },
  mtls: {
    command,
    args: (file) => [`--configFile=${file}.static.yaml`],
    listen: () => ['certs.example.com', 'certs.example.com'],
  },
  hidesCalls: [
    {
      'traefik.yaml': [
        [
          'trustForwardHeader: true',
          'trustForwardHeader: true\n        authRequestHeaders: [Accept, Cookie, User-Agent, Sec-Fetch-Mode, Mcp-Name]',
        ],
      ],
    },
    /no mcp-protocol-version, mcp-method, mcp-session-id, last-event-id:/,
  ],
  mistakes: (
    [
      [
        'no cookie of the check',
        changed('customResponseHeaders: { Set-Cookie: "" }'),
        FINDINGS.cookieLost,
      ],
      [
        'no Sec-Fetch-Dest',
        [
          [
            'trustForwardHeader: true',
            'authRequestHeaders: [Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Site, Referer]',
          ],
        ],
        FINDINGS.navigationUnseen,
      ],
      [
        'no check',
        [['middlewares: [without-forged, gatehouse]', 'middlewares: [without-forged]']],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['            X-Forwarded-User,\n', '']],
        /forge x-forwarded-user for the app/,
      ],
      [
        'no Cookie',
        [['trustForwardHeader: true', 'authRequestHeaders: [Accept, Sec-Fetch-Mode]']],
        /receives no Cookie/,
      ],
      [
        'no Accept',
        [['trustForwardHeader: true', 'authRequestHeaders: [Cookie]']],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      [
        'another host',
        changed('customRequestHeaders: { X-Forwarded-Host: wiki.example.com }'),
        /told the host wiki.example.com, not app.example.com/,
      ],
      [
        'the wrong scheme',
        changed('customRequestHeaders: { X-Forwarded-Proto: http }'),
        /told the scheme http, not https/,
      ],
      [
        'always one method',
        changed('customRequestHeaders: { X-Forwarded-Method: GET }'),
        /told the method GET, not POST/,
      ],
      [
        'always one path',
        changed('customRequestHeaders: { X-Forwarded-Uri: /app }'),
        /told the path \/app/,
      ],
      [
        'no Location',
        changed('customResponseHeaders: { Location: "" }'),
        /receives 302 without Location/,
      ],
      [
        'no WWW-Authenticate',
        changed('customResponseHeaders: { WWW-Authenticate: "" }'),
        /401 without WWW-Authenticate/,
      ],
      ['every upgrade', [['priority: 1000000', 'priority: 1']], /leave every check behind/],
      [
        'the host of the upstream at the app',
        [
          [
            'loadBalancer:\n        servers: [{ url: http://127.0.0.1:8080',
            'loadBalancer:\n        passHostHeader: false\n        servers: [{ url: http://127.0.0.1:8080',
          ],
        ],
        /told the host 127\.0\.0\.1/,
      ],
      ['a policy that is not there', [['policy=any', 'policy=nobody']], /FWA_POLICY_UNKNOWN/],
      [
        'a check before the sign-in pages',
        [
          [
            'rule: Host(`auth.example.com`)\n',
            'rule: Host(`auth.example.com`)\n      middlewares: [gatehouse]\n',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([title, changes, finding]) => [title, { 'traefik.yaml': changes }, finding]),
}
