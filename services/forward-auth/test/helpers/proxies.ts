import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import type { Certificate } from './certificates.ts'
import { createClient } from './client.ts'
import { startProcess } from './process.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples/proxies')

/** What stands in an example, and what it becomes. */
type Changes = readonly (readonly [from: string, to: string])[]

/** Where a proxy is, and where it finds everything else. */
export interface Surroundings {
  /** Where it serves HTTPS. */
  readonly port: number
  /** For files of the proxy. */
  readonly folder: string
  readonly certificate: Certificate
  readonly gatehousePort: number
  /** Where Gatehouse listens for gRPC, if it does. */
  readonly grpcPort?: number | undefined
  readonly appPort: number
  /** Instead of example.com. */
  readonly domain?: string
  /** Whether it serves plain HTTP instead. */
  readonly isPlain?: boolean
  /** What else becomes of the files of an example, by name. */
  readonly changes?: Readonly<Record<string, Changes>>
}

/** An example with everything replaced that depends on the machine; what is not there is a fault. */
export function readExample(name: string, changes: Changes): string {
  return changes.reduce(
    (text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`${name} holds no ${JSON.stringify(from)}`)
      return text.replaceAll(from, to)
    },
    readFileSync(join(EXAMPLES, name), 'utf8'),
  )
}

function write(
  { folder, changes, domain, isPlain }: Surroundings,
  name: string,
  own: Changes,
): string {
  const file = join(folder, name)
  const plain = isPlain ? (WITHOUT_TLS[name] ?? []) : []
  const text = readExample(name, [...(changes?.[name] ?? []), ...plain, ...own])
  writeFileSync(file, domain ? text.replaceAll('example.com', domain) : text)
  return file
}

/** The part of an Envoy configuration that says how TLS is spoken, and what follows it. */
const ENVOY_TLS =
  / {8}- transport_socket:\n[\s\S]*?\n {10}filters:/.exec(readExample('envoy.yaml', []))?.[0] ?? ''
const ENVOY_PLAIN: Changes = [
  [ENVOY_TLS, ENVOY_TLS.replaceAll(/^/gm, '# ').replace(/# +filters:$/, '        - filters:')],
]

/** An example for plain HTTP. The certificates are named in comments then. */
const WITHOUT_TLS: Readonly<Record<string, Changes>> = {
  'nginx.conf': [['listen 443 ssl http2', 'listen 443']],
  Caddyfile: [
    [
      'app.example.com, admin.example.com {\n\timport certificate',
      'http://app.example.com, http://admin.example.com {',
    ],
    ['auth.example.com {\n\timport certificate', 'http://auth.example.com {'],
  ],
  'haproxy.cfg': [
    ['bind :443 ssl crt /etc/ssl/example.com.pem', 'bind :443 # /etc/ssl/example.com.pem'],
    ['X-Forwarded-Proto https', 'X-Forwarded-Proto http'],
  ],
  'traefik.yaml': [['      tls: {}\n', '']],
  'envoy.yaml': ENVOY_PLAIN,
  'envoy-grpc.yaml': ENVOY_PLAIN,
}

function addresses({ gatehousePort, appPort }: Surroundings): Changes {
  return [
    ['127.0.0.1:4181', `127.0.0.1:${gatehousePort}`],
    ['127.0.0.1:8080', `127.0.0.1:${appPort}`],
  ]
}

function certificateFiles({ certificate }: Surroundings): Changes {
  return [
    ['/etc/ssl/example.com.crt', certificate.crt],
    ['/etc/ssl/example.com.key', certificate.key],
  ]
}

async function startNginx(t: Test, around: Surroundings): Promise<void> {
  const { folder, port } = around
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const temporary = kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`)
  const file = write(around, 'nginx.conf', [
    ...addresses(around),
    ...certificateFiles(around),
    ['listen 443', `listen 127.0.0.1:${port}`],
    ['http {', `http { access_log off; ${temporary.join(' ')}`],
  ])
  const globals = `daemon off; master_process off; pid ${folder}/nginx.pid;`
  const args = ['-e', 'stderr', '-c', file, '-g', globals]
  await startProcess(t, { command: 'nginx', args, folder, port })
}

async function startCaddy(t: Test, around: Surroundings): Promise<void> {
  const { folder, port, isPlain } = around
  const globals = `{
    admin off
    auto_https disable_redirects
    ${isPlain ? 'http_port' : 'https_port'} ${port}
    default_bind 127.0.0.1
  }`
  const changes = [...addresses(around), ...certificateFiles(around)]
  const file = write(around, 'Caddyfile', changes)
  writeFileSync(file, `${globals}\n${readFileSync(file, 'utf8')}`)
  const args = ['run', '--config', file, '--adapter', 'caddyfile']
  await startProcess(t, { command: 'caddy', args, folder, port })
}

async function startHaproxy(t: Test, around: Surroundings): Promise<void> {
  const { folder, port } = around
  const lua = write(around, 'haproxy.lua', [])
  const file = write(around, 'haproxy.cfg', [
    ...addresses(around),
    ['/etc/ssl/example.com.pem', around.certificate.pem],
    ['/etc/haproxy/haproxy.lua', lua],
    ['bind :443', `bind 127.0.0.1:${port}`],
  ])
  const args = ['-db', '-f', file]
  await startProcess(t, { command: 'haproxy', args, folder, port })
}

const envoyAddresses = (around: Surroundings): Changes => [
  ...certificateFiles(around),
  ['port_value: 4181', `port_value: ${around.gatehousePort}`],
  ['port_value: 8080', `port_value: ${around.appPort}`],
  ['address: 0.0.0.0, port_value: 443', `address: 127.0.0.1, port_value: ${around.port}`],
]

async function startEnvoy(t: Test, around: Surroundings): Promise<void> {
  const file = write(around, 'envoy.yaml', [
    ['http://127.0.0.1:4181', `http://127.0.0.1:${around.gatehousePort}`],
    ...envoyAddresses(around),
  ])
  await runEnvoy(t, file, around)
}

async function startEnvoyByGrpc(t: Test, around: Surroundings): Promise<void> {
  const file = write(around, 'envoy-grpc.yaml', [
    ['port_value: 4182', `port_value: ${around.grpcPort}`],
    ...envoyAddresses(around),
  ])
  await runEnvoy(t, file, around)
}

async function runEnvoy(t: Test, file: string, { folder, port }: Surroundings): Promise<void> {
  const args = ['-c', file, '--concurrency', '1', '--use-dynamic-base-id', '-l', 'warning']
  await startProcess(t, { command: process.env.ENVOY ?? 'envoy', args, folder, port })
}

async function startTraefik(t: Test, around: Surroundings): Promise<void> {
  const { folder, port } = around
  const file = write(around, 'traefik.yaml', [...addresses(around), ...certificateFiles(around)])
  const settings = write(around, 'traefik-static.yaml', [
    ['":443"', `127.0.0.1:${port}`],
    ['/etc/traefik/traefik.yaml', file],
    ['providers:', 'global: { checkNewVersion: false, sendAnonymousUsage: false }\nproviders:'],
  ])
  const args = [`--configFile=${settings}`]
  await startProcess(t, { command: process.env.TRAEFIK ?? 'traefik', args, folder, port })
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

/** Starts each proxy with its example; see {@link missingProgram}. */
export const PROXIES = {
  nginx: startNginx,
  caddy: startCaddy,
  haproxy: startHaproxy,
  traefik: startTraefik,
  envoy: startEnvoy,
  'envoy-grpc': startEnvoyByGrpc,
} as const

export type ProxyName = keyof typeof PROXIES

/** The programs that Debian does not have, and the variables that name them; `.ci/run` gets both. */
const VARIABLES: Partial<Record<ProxyName, string>> = {
  traefik: 'TRAEFIK',
  envoy: 'ENVOY',
  'envoy-grpc': 'ENVOY',
}

/** Why a proxy cannot run here; false if it can. */
export function missingProgram(proxy: ProxyName): string | false {
  const variable = VARIABLES[proxy]
  if (variable === undefined || process.env[variable]) return false
  return `${variable} does not name the program of ${proxy}`
}
