// Both services, as many equal replicas of each as the store allows.
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withClock } from '../../services/cert-service/test/helpers/clock.ts'
import { programOf } from '../test/program.ts'
import { command } from './commands.ts'
import { AUTH_HOST, CLIENT } from './identity.ts'
import type { Network } from './network.ts'
import { Program } from './program.ts'

export const CERT_PORT = 7401
export const CHALLENGE_PORT = 7402
export const AUTH_PORT = 4181
export const API_KEY = 'key-of-the-endurance-run-0123456789'
/** Names of this zone are for the ACME CA, all others for the embedded one. */
export const ACME_ZONE = 'acme.example'
/** How long a replica that is cut off from the database may believe sessions, in ms. */
export const STALENESS = 5_000

export type ServiceName = 'cert-service' | 'forward-auth'

export interface Replica {
  /** Its host name as well. */
  readonly name: string
  readonly service: ServiceName
  readonly address: string
  readonly port: number
  /** What its clock is off by. */
  readonly clock: string | undefined
  readonly configFile: string
  readonly folder: string
  readonly program: Program
}

export interface ReplicaOptions {
  readonly network: Network
  readonly folder: string
  /** Of the database; without it, each service keeps its state in a folder. */
  readonly url: string | undefined
  readonly acmeDirectory: string
  readonly acmeValiditySeconds: number
  readonly issuerUrl: string
  /** PEM of what signed the certificates of the harness. */
  readonly caPem: string
  /** Names of replicas with their clocks, such as `+5m`. */
  readonly clocks: ReadonlyMap<string, string>
}

/** Starts the replicas of a service, without waiting for them. */
export async function startReplicas(
  service: ServiceName,
  count: number,
  options: ReplicaOptions,
): Promise<readonly Replica[]> {
  const shared = join(options.folder, service)
  mkdirSync(shared)
  const caFile = join(shared, 'ca.pem')
  const masterKeyFile = join(shared, 'master.key')
  writeFileSync(caFile, options.caPem)
  // On a database it is never generated: every replica has the same one.
  if (options.url !== undefined)
    writeFileSync(masterKeyFile, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
  const files = { caFile, masterKeyFile }
  const short = service === 'cert-service' ? 'cert' : 'auth'
  const replicas: Replica[] = []
  for (let n = 1; n <= count; n++)
    replicas.push(await startReplica(service, `${short}-${n}`, files, options))
  return replicas
}

interface SharedFiles {
  readonly caFile: string
  readonly masterKeyFile: string
}

async function startReplica(
  service: ServiceName,
  name: string,
  files: SharedFiles,
  options: ReplicaOptions,
): Promise<Replica> {
  const host = await options.network.add(name)
  const folder = join(options.folder, name)
  mkdirSync(folder)
  const configFile = join(folder, 'config.yaml')
  const settings = service === 'cert-service' ? certSettings : authSettings
  // YAML is a superset of JSON.
  writeFileSync(configFile, JSON.stringify(settings(folder, files, options), null, 2))
  const clock = options.clocks.get(name)
  const program = new Program({
    host,
    logFile: join(options.folder, `${name}.log`),
    command: [process.execPath, ...programOf(service), 'serve', '--config', configFile],
    ...(clock !== undefined && { env: withClock(clock) }),
  })
  program.start()
  const port = service === 'cert-service' ? CERT_PORT : AUTH_PORT
  return { name, service, address: host.address, port, clock, configFile, folder, program }
}

const COMMON = { metrics: { enabled: false }, log: { format: 'json' } }

function certSettings(folder: string, files: SharedFiles, options: ReplicaOptions): object {
  const { caFile, masterKeyFile } = files
  const { url, acmeDirectory } = options
  return {
    ...COMMON,
    server: {
      ...{ host: '0.0.0.0', port: CERT_PORT, tls: 'insecure' },
      plainHttp: { host: '0.0.0.0', port: CHALLENGE_PORT },
    },
    storage:
      url === undefined ? { path: join(folder, 'data'), masterKeyFile } : { url, masterKeyFile },
    auth: { psk: { keys: [{ name: 'operator', key: API_KEY }] } },
    issuers: [
      {
        ...{ name: 'pebble', type: 'acme', directory: acmeDirectory, caFile },
        ...{ names: [`*.${ACME_ZONE}`], agreeToTerms: true },
        challenges: [{ type: 'http-01' }],
      },
    ],
  }
}

function authSettings(folder: string, files: SharedFiles, options: ReplicaOptions): object {
  const { url, issuerUrl, network } = options
  const shared = { url, revocationStaleness: `${STALENESS}ms`, whenStale: 'refuse' }
  const provider = { type: 'openIDConnect', name: 'demo', issuerUrl, caFile: files.caFile }
  return {
    ...COMMON,
    server: { host: '0.0.0.0', port: AUTH_PORT, trustedProxies: [network.range] },
    session: { keys: [{ secret: 'session-key-of-the-endurance-run-0123456789' }] },
    storage: url === undefined ? { path: join(folder, 'data') } : shared,
    // One of the replicas has a wrong clock, by which a ticket for a single host would be old.
    domains: [{ domain: 'example.com', authHost: AUTH_HOST, session: { scope: 'domain' } }],
    portals: [{ name: 'main', providers: [{ ...provider, ...CLIENT }] }],
  }
}

/** Whether a replica says that it can work. */
export async function isReady({ address, port }: Replica): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(2_000)
    const { status, body } = await fetch(`http://${address}:${port}/readyz`, { signal })
    await body?.cancel()
    return status === 200
  } catch {
    return false
  }
}

/** The audit trail of forward-auth, as its command prints it. */
export async function readSignInAudit<Row>({ configFile }: Replica): Promise<readonly Row[]> {
  const args = [...programOf('forward-auth'), 'audit', '--json', '--since', '24h']
  const text = await command(process.execPath, [...args, '--config', configFile])
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Row)
}
