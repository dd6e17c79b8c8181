import { attempt, type Clock, sleep, toTime } from '@gatehouse/net'
import { buildCsr, type KeyPair, toPem } from '@gatehouse/pki'
import { watchFiles } from '@gatehouse/service-kit/files'
import { printable } from '@gatehouse/service-kit/program'
import {
  type CertificateRequest,
  fits,
  type Placed,
  readPair,
  requireUsable,
  timeOf,
} from './certificate.ts'
import { ClientError, describe } from './errors.ts'
import type { StoragePlace } from './place.ts'
import { type ProbeHost, requireServed } from './served.ts'
import {
  type CertService,
  type IssuedAnswer,
  type OrderAnswer,
  orderFailure,
  type PendingOrder,
} from './service.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
/** Between two looks at an order, if the service does not say. */
const POLL = 5 * SECOND
const MAX_POLL = MINUTE
/** Refusals of a renewal that the service makes anyway. */
const NOT_MINE = ['CERT_RENEW_TOO_SOON', 'CERT_NAME_NOT_ALLOWED', 'CERT_NOT_FOUND']
const UNFIT_KEY = ['CERT_KEY_COMPROMISED', 'PKI_KEY_WEAK']
/** The service renews what is due twice a minute. */
const RENEWED_WITHIN = 30 * SECOND
/** The problem with a folder of another certificate: two clients would replace each other's files for ever. */
const OTHER =
  'another certificate than requested was here; if another command keeps it here, give one of them another folder'
/** Even where the service plans its next try for tomorrow: somebody may have removed the cause. */
const LONGEST_BACKOFF = 5 * MINUTE

export interface Get {
  readonly request: CertificateRequest
  /** Whether the private key is made here, and only a CSR is sent. */
  readonly isOwnKey: boolean
  readonly place: StoragePlace
  readonly service: CertService
  /** Asks the service for its roots; absent where those of the system verify it. */
  readonly chainRoots?: { look(): Promise<void> } | undefined
  readonly clock: Clock
  /** Draws a number from 0 up to 1. */
  readonly random: () => number
  readonly log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
  readonly signal: AbortSignal
  /** What it connects with: keys, tokens, roots. After a failure, a change of one is tried at once. */
  readonly connectionFiles?: readonly string[]
  /** The time to wait for an order, in ms. */
  readonly patienceMs: number
  /** The ports that have to serve what is in place. */
  readonly ports?: readonly ProbeHost[]
}

/**
 * Gets the certificate once, if it is not there or another one is. While the service cannot be reached it
 * tries again for `patienceMs`, or not at all if what is there is not due.
 * @throws ClientError
 */
export async function getOnce(get: Get): Promise<void> {
  const { clock, log, signal } = get
  const begin = clock.now()
  const end = begin + get.patienceMs
  for (let failures = 1; ; failures += 1) {
    try {
      await confirm(get, await update(get))
      return
    } catch (error) {
      if (!(error instanceof ClientError && error.isTransient)) throw error
      const placed = currentOf(await get.place.read(), get)
      if (placed && !isDue(placed, clock.now())) {
        log.warn(describe(error), 'the service could not be reached; the certificate is not due')
        return confirm(get, placed, false)
      }
      const wait = waitAfter(error, failures, get.random)
      if (clock.now() + wait > end) throw error
      const retry = describeRetry(error, begin, clock.now() + wait)
      log.warn(retry, 'the certificate could not be obtained')
      await sleep(clock, wait, signal)
    }
  }
}

/** Keeps the certificate up to date until the signal is aborted. */
export async function keepGetting(get: Get): Promise<void> {
  const { clock, log, random, signal } = get
  let failures = 0
  let since: number | undefined
  while (!signal.aborted) {
    try {
      const placed = await update(get)
      failures = 0
      since = undefined
      await confirm(get, placed).catch((error) => {
        if (!(error instanceof ClientError)) throw error
        log.error(describe(error), 'the certificate is not served')
      })
      await sleep(clock, untilNextLook(placed, clock.now(), random), signal).catch(() => {})
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof ClientError)) throw error
      failures += 1
      const wait = waitAfter(error, failures, random)
      since ??= clock.now()
      const retry = describeRetry(error, since, clock.now() + wait)
      log.warn(retry, 'the certificate could not be updated')
      await sleepUntilChange(get, wait)
    }
  }
}

/** Sleeps after a failure, at most until a file of the connection changes. */
async function sleepUntilChange({ clock, signal, connectionFiles = [] }: Get, ms: number) {
  const change = new AbortController()
  // A folder that does not exist cannot be watched.
  const watcher = attempt(() => watchFiles(connectionFiles, () => change.abort()))
  await sleep(clock, ms, AbortSignal.any([signal, change.signal])).catch(() => {})
  watcher?.close()
}

/** Looks whether the servers have read what is in place, new or not. */
async function confirm(get: Get, placed: Placed, isReachable = true): Promise<void> {
  const { ports = [], service, ...context } = get
  const listener = isReachable ? service : undefined
  await requireServed(placed, domainOf(get), { ...context, ports, service: listener })
}

async function update(get: Get): Promise<Placed> {
  const { place, log, signal } = get
  // What a run that was killed or failed has left to do must not wait for the service.
  const failure = await place.settle().catch((error: Error) => error)
  await get.chainRoots?.look()
  signal.throwIfAborted()
  const prior = await place.read()
  const current = currentOf(prior, get)
  if (failure instanceof ClientError) log.warn(describe(failure), 'an earlier run was incomplete')
  const newer = await findNewer(get, current)
  if (newer) {
    if (prior && !isWanted(prior, get)) log.warn({ path: place.path, names: prior.names }, OTHER)
    await place.put(newer, prior)
    await place.settle()
    return newer
  }
  if (failure) throw failure
  return current as Placed
}

/** The certificate that is in place, if it is what is wanted and valid. */
function currentOf(placed: Placed | undefined, get: Get): Placed | undefined {
  return placed && placed.notAfter > get.clock.now() && isWanted(placed, get) ? placed : undefined
}

function isWanted(placed: Placed, { request, isOwnKey }: Get): boolean {
  return placed.isOwnKey === isOwnKey && fits(placed, request)
}

/** Gets the certificate of the service, unless it is the one that is held. */
async function findNewer(get: Get, current: Placed | undefined): Promise<Placed | undefined> {
  const newest = (current && (await askForNewest(get, current))) ?? (await obtain(get))
  return newest.fingerprint256 === current?.fingerprint256 ? undefined : newest
}

/** Asks what the service has for the name now; undefined if that is the certificate of somebody else. */
async function askForNewest(get: Get, current: Placed): Promise<Placed | undefined> {
  const { service, isOwnKey, clock } = get
  const domain = domainOf(get)
  // The tags that the service gives. If it should give others, it sends the same certificate again.
  const answer = await service.find(
    domain,
    `"${current.fingerprint256}${isOwnKey ? '-chain' : ''}"`,
  )
  if (answer === 'unchanged')
    return isDue(current, clock.now()) ? ((await renew(get, current)) ?? current) : current
  return answer && acceptable(answer, get, current)
}

/** Has the service renew what is due, in case it has not yet. */
async function renew(get: Get, current: Placed): Promise<Placed | undefined> {
  try {
    const outcome = await get.service.renew(domainOf(get))
    if ('asked' in outcome) return undefined
    if ('issued' in outcome) return acceptable(outcome.issued, get, current)
    await awaitOrder(get, outcome)
    return await obtain(get)
  } catch (error) {
    if (error instanceof ClientError && NOT_MINE.includes(error.code)) return undefined
    throw error
  }
}

/** Reads an answer as a pair, if it can take the place of what is held. */
function acceptable(answer: IssuedAnswer, get: Get, current: Placed): Placed | undefined {
  const { request, isOwnKey, clock } = get
  return attempt(() => {
    const pair = pairOf(answer, isOwnKey ? current.privateKey : undefined)
    requireUsable(pair, request, clock.now())
    return fits(pair, { ...request, keyType: current.keyType }) ? pair : undefined
  })
}

function pairOf(answer: IssuedAnswer, ownKey: string | KeyPair | undefined): Placed {
  const { certificate, privateKey, renewAt = '' } = answer
  const key = ownKey ?? privateKey
  if (key === undefined)
    throw new ClientError('CERT_KEY_WITHHELD', 'the service gives no private key to this caller', {
      action: 'Add `issue` to the rights of the caller, or use `--csr`.',
    })
  const isOwnKey = ownKey !== undefined
  return { ...readPair(certificate, key), renewAt: timeOf(renewAt), isOwnKey }
}

/** Requests the certificate, and waits for its order if it takes long. */
async function obtain(get: Get): Promise<Placed> {
  const { request, place, isOwnKey } = get
  if (!isOwnKey || !place.ownKey) return issue(get, undefined)
  const type = request.keyType ?? 'p256'
  try {
    return await issue(get, await place.ownKey(type, false))
  } catch (error) {
    if (!(error instanceof ClientError && UNFIT_KEY.includes(error.code))) throw error
    get.log.warn(describe(error), 'the private key was refused; a new one is generated')
    return issue(get, await place.ownKey(type, true))
  }
}

async function issue(get: Get, ownKey: KeyPair | undefined): Promise<Placed> {
  const { request, service, clock } = get
  const names = request.names.slice(1).map(({ text }) => text)
  const body = {
    domain: domainOf(get),
    ...(names.length > 0 && { names }),
    ...(ownKey
      ? { csr: toPem('CERTIFICATE REQUEST', buildCsr(ownKey, request.names)) }
      : { keyType: request.keyType }),
    lifetime: request.lifetime,
  }
  let outcome = await service.obtain(body)
  for (; 'order' in outcome; outcome = await service.obtain(body)) await awaitOrder(get, outcome)
  const pair = pairOf(outcome.issued, ownKey)
  requireUsable(pair, request, clock.now())
  return pair
}

/** Asks for an order until it is done. @throws ClientError with the code of its failure, or CERT_CLIENT_ORDER_PENDING */
export async function awaitOrder(
  get: Pick<Get, 'service' | 'clock' | 'log' | 'signal' | 'patienceMs'>,
  { order: first, retryAfterMs = POLL }: PendingOrder,
): Promise<OrderAnswer> {
  const { service, clock, log, signal, patienceMs } = get
  const end = clock.now() + patienceMs
  let order = first
  for (let step = ''; order.status === 'pending'; order = await service.order(order.id)) {
    if (order.step !== step)
      log.info({ order: order.id, step: printable(order.step) }, 'waiting for the order')
    step = order.step
    const wait = Math.min(Math.max(retryAfterMs, SECOND), MAX_POLL)
    if (clock.now() + wait > end)
      throw new ClientError('CERT_CLIENT_ORDER_PENDING', `the order ${order.id} is not done yet`)
    await sleep(clock, wait, signal)
  }
  if (order.status === 'failed') throw orderFailure(order, clock.now())
  return order
}

function domainOf({ request }: Get): string {
  return request.names[0]?.text ?? ''
}

function isDue({ renewAt, notAfter }: Placed, now: number): boolean {
  return (renewAt ?? notAfter) <= now
}

/** The milliseconds until the service is asked again: about an hour at most, and when the certificate is renewed. */
export function untilNextLook(
  { notBefore, notAfter, renewAt = notAfter }: Pick<Placed, 'notBefore' | 'notAfter' | 'renewAt'>,
  now: number,
  random: () => number,
): number {
  const interval = Math.min(HOUR, Math.max(MINUTE, (notAfter - notBefore) / 24))
  const usual = interval * (0.9 + random() / 5)
  if (renewAt <= now) return Math.min(usual, Math.max(RENEWED_WITHIN, (now - renewAt) / 2))
  return Math.min(usual, renewAt - now + RENEWED_WITHIN * (1 + random()))
}

/** The milliseconds to wait after so many failures in a row: twice as long each time, or what the service asks for, up to five minutes. */
export function waitAfter(
  { retryAfterMs = 0 }: Pick<ClientError, 'retryAfterMs'>,
  failures: number,
  random: () => number,
) {
  const backoff = Math.min(LONGEST_BACKOFF, SECOND * 2 ** Math.min(failures - 1, 20))
  const minimum = Math.min(retryAfterMs, LONGEST_BACKOFF) * (1 + random() / 10)
  return Math.max(backoff * (0.5 + random() / 2), minimum)
}

/** What a line of the log says of a failure that is tried again. */
function describeRetry(error: ClientError, since: number, nextTry: number): object {
  return { ...describe(error), since: toTime(since), nextTryAt: toTime(nextTry) }
}
