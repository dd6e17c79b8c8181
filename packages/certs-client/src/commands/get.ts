import { createFetch, parseEndpointUrl } from '@gatehouse/net'
import { KEY_TYPES } from '@gatehouse/pki'
import { durationOf } from '@gatehouse/service-kit/config'
import { readChoice, UsageError } from '@gatehouse/service-kit/program'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { openChainRoots } from '../chain-roots.ts'
import { clientClock } from '../clock.ts'
import { type CompanionOptions, type Pkcs12Options, readPassword } from '../companions.ts'
import { type Get, getOnce, keepGetting } from '../keep.ts'
import { openService, warnIfExposed } from '../open.ts'
import { openFolder, type StoragePlace } from '../place.ts'
import { trustRootsFile } from '../roots-file.ts'
import { clusterRoot, openSecret, SERVICE_ACCOUNT } from '../secret.ts'
import type { ActionFor } from '../service.ts'
import {
  type ConnectionOptions,
  checkForms,
  kebab,
  readConnection,
  readMode,
  readNames,
  readOwner,
  readProbe,
  readProfile,
  readSecretName,
  type Texts,
} from '../settings.ts'

/** The options of `get`. Durations are texts such as `5m`. */
interface GetOptions
  extends ConnectionOptions,
    Texts<'keyType' | 'lifetime' | 'profile' | 'timeout' | 'caOut'>,
    Texts<'p12PasswordFile' | 'out' | 'secret' | 'mode' | 'owner' | 'reload' | 'reloadTimeout'> {
  readonly probe?: readonly string[] | undefined
  readonly p12?: boolean | undefined
  readonly csr?: boolean | undefined
  readonly watch?: boolean | undefined
}

const DAY = 86_400_000
const OF_FILES = ['csr', 'mode', 'owner', 'reload', 'reloadTimeout'] as const

/** Gets a certificate once, or keeps it up to date until a signal ends it. @throws UsageError, ClientError */
export async function get(
  names: readonly string[],
  options: GetOptions,
  process: NodeJS.Process,
  actionFor: ActionFor,
): Promise<void> {
  checkForms(options)
  const profile = readProfile(options.profile)
  const ports = (options.probe ?? []).map(readProbe)
  if (ports.length > 0 && profile === 'client')
    throw new UsageError('--probe is for certificates of servers')
  const request = {
    names: readNames(names, profile),
    keyType: readChoice('--key-type', options.keyType, KEY_TYPES),
    lifetime: options.lifetime,
  }
  const log = createLogger({ level: 'info', format: 'auto', name: 'gatehouse-certs' })
  using stop = stopSignal(process)
  const deps = { clock: clientClock, log, signal: stop.signal }
  const [domain] = request.names
  if (!domain) throw new UsageError('get needs a name')
  await using opened = new AsyncDisposableStack()
  // No name of a server begins like this, and none has an `@`.
  const isOfClient = profile === 'client'
  const name = isOfClient ? `_client.${encodeURIComponent(domain.text)}` : domain.text
  const connection = trustRootsFile(readConnection(options, process.env), options.caOut, log)
  const service = opened.use(openService(connection, { ...deps, actionFor, profile }))
  const { roots, files: connectionFiles } = service
  const chainRoots = roots && openChainRoots({ ...deps, roots, service, file: options.caOut })
  const pkcs12 = pkcs12Of(options, { friendlyName: domain.text, log })
  const companions = { chainRoots, pkcs12 }
  const place = await openPlace(name, options, { ...deps, env: process.env, opened, ...companions })
  const run: Get = {
    ...deps,
    request,
    place,
    service,
    chainRoots,
    random: Math.random,
    isOwnKey: options.csr === true,
    connectionFiles,
    ports,
    patienceMs: options.watch ? Infinity : readDuration('--timeout', options.timeout ?? '5m'),
  }
  await (options.watch ? keepGetting(run) : getOnce(run))
}

interface PlaceDeps extends Pick<Get, 'clock' | 'log' | 'signal'>, CompanionOptions {
  readonly env: NodeJS.ProcessEnv
  readonly opened: AsyncDisposableStack
}

/** Reads what asks for PKCS#12 files, and tries the password before anything is requested. @throws UsageError, ClientError */
function pkcs12Of(
  { p12, p12PasswordFile: passwordFile }: GetOptions,
  { log, ...rest }: Omit<Pkcs12Options, 'passwordFile'> & Pick<PlaceDeps, 'log'>,
): Pkcs12Options | undefined {
  if (!p12 && passwordFile === undefined) return undefined
  if (!p12 || passwordFile === undefined)
    throw new UsageError('--p12 and --p12-password-file need each other')
  readPassword(passwordFile)
  warnIfExposed(passwordFile, log)
  return { passwordFile, ...rest }
}

async function openPlace(domain: string, options: GetOptions, deps: PlaceDeps) {
  const { out, secret, mode = '600', owner, reload, reloadTimeout = '1m' } = options
  if ((out === undefined) === (secret === undefined))
    throw new UsageError('get needs --out, the folder for the files, or --secret')
  if (secret !== undefined) return secretOf(secret, options, deps)
  const timeoutMs = readDuration('--reload-timeout', reloadTimeout)
  return openFolder({
    ...deps,
    dir: out ?? '',
    domain,
    mode: readMode(mode),
    isOwnKey: options.csr === true,
    owner: owner === undefined ? undefined : await readOwner(owner),
    reload: reload === undefined ? undefined : { command: reload, timeoutMs },
  })
}

function secretOf(text: string, options: GetOptions, deps: PlaceDeps): StoragePlace {
  const { env, opened } = deps
  const wrong = OF_FILES.find((option) => options[option] !== undefined)
  if (wrong) throw new UsageError(`--${kebab(wrong)} is for --out, not for --secret`)
  const name = readSecretName(text)
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env
  if (!host) throw new UsageError('--secret works in a pod of Kubernetes only')
  const url = parseEndpointUrl(`https://${host.includes(':') ? `[${host}]` : host}:${port}`)
  const fetch = createFetch({ ca: clusterRoot(SERVICE_ACCOUNT) })
  opened.defer(fetch.close)
  return openSecret({ ...deps, ...name, url, fetch, account: SERVICE_ACCOUNT })
}

function readDuration(option: string, text: string): number {
  const ms = durationOf(text)
  if (ms !== undefined && ms > 0 && ms <= DAY) return ms
  throw new UsageError(`${option} is a duration such as 30s or 5m, and at most 1d`)
}

/** A signal that those of the system that end a program abort. A client that they end leaves whole files behind. */
function stopSignal(process: NodeJS.Process): { readonly signal: AbortSignal } & Disposable {
  const controller = new AbortController()
  const stop = (name: string) => controller.abort(new Error(`ended by ${name}`))
  const names = ['SIGINT', 'SIGTERM'] as const
  for (const name of names) process.once(name, stop)
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const name of names) process.off(name, stop)
    },
  }
}
