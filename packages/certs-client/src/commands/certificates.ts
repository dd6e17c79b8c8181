import { REVOCATION_REASONS } from '@gatehouse/pki'
import { printable, UsageError } from '@gatehouse/service-kit'
import { clientClock } from '../clock.ts'
import { ClientError } from '../errors.ts'
import { awaitOrder } from '../keep.ts'
import { openService } from '../open.ts'
import {
  type ActionFor,
  type CertService,
  type OrderAnswer,
  orderFailure,
  type PendingOrder,
} from '../service.ts'
import { type ConnectionOptions, readConnection, readName } from '../settings.ts'
import { labelled, table } from './table.ts'

export interface CommandOptions extends ConnectionOptions {
  readonly json?: boolean | undefined
}

interface Io {
  readonly env: NodeJS.ProcessEnv
  readonly stdout: { readonly isTTY?: boolean }
  readonly stderr: { write(text: string): unknown }
  readonly actionFor: ActionFor
}

/** Prints JSON unless a person reads it. */
function isJson({ json }: CommandOptions, { stdout }: Io): boolean {
  return json === true || stdout.isTTY !== true
}

async function ask<T>(
  options: CommandOptions,
  { env, stderr, actionFor }: Io,
  step: (service: CertService) => Promise<T>,
): Promise<T> {
  const warn = (fields: object, message: string) =>
    stderr.write(`warning: ${Object.values(fields).join(' ')}: ${message}\n`)
  await using service = openService(readConnection(options, env), {
    clock: clientClock,
    log: { warn },
    actionFor,
  })
  return await step(service)
}

const toJson = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`

/** Lists the certificates that the caller may see, or what fails. @throws UsageError, ClientError */
export function list(
  _: string,
  options: CommandOptions & { readonly failing?: boolean | undefined },
  io: Io,
): Promise<string> {
  return ask(options, io, async (service) => {
    if (options.failing) return listFailing(service, isJson(options, io))
    const certificates = []
    for await (const one of service.list()) certificates.push(one)
    if (isJson(options, io)) return toJson(certificates)
    if (certificates.length === 0) return 'There is no certificate that you may see.\n'
    const rows = certificates.map(
      ({ domain, names, issuer, keyType, notAfter, renewAt, lastFailure }) => [
        domain,
        others(names),
        issuer,
        keyType,
        shortTime(notAfter),
        shortTime(renewAt),
        lastFailure?.code ?? '',
      ],
    )
    return table(['NAME', 'MORE NAMES', 'ISSUER', 'KEY', 'EXPIRES', 'RENEWS', 'LAST FAILURE'], rows)
  })
}

async function listFailing(service: CertService, isJson: boolean): Promise<string> {
  const orders = []
  for await (const one of service.failing()) orders.push(one)
  if (isJson) return toJson(orders)
  if (orders.length === 0) return 'Nothing fails that you may see.\n'
  const rows = orders.map(
    ({ id, names, issuer, notAfter = 'never issued', nextTryAt, lastError }) => [
      names[0] ?? '',
      others(names),
      issuer,
      shortTime(notAfter),
      shortTime(nextTryAt),
      lastError?.code ?? '',
      id,
    ],
  )
  return table(
    ['NAME', 'MORE NAMES', 'ISSUER', 'EXPIRES', 'NEXT TRY', 'LAST FAILURE', 'ORDER'],
    rows,
  )
}

function others(names: readonly string[]): string {
  const [, first, ...more] = names
  if (first === undefined) return ''
  return more.length === 0 ? first : `${first} and ${more.length} more`
}

/** Writes a time to the minute, in UTC. */
function shortTime(time = ''): string {
  return time.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*$/, '$1 $2')
}

/** Shows one certificate, without its private key. @throws UsageError, ClientError */
export function show(
  name: string,
  options: CommandOptions & { readonly pem?: boolean | undefined },
  io: Io,
): Promise<string> {
  return ask(options, io, async (service) => {
    const domain = readName(name).text
    const { certificate, ...shown } = await service
      .show(domain)
      .catch(async (error) => Promise.reject(await whyNone(service, domain, error)))
    if (options.pem) return certificate
    if (isJson(options, io)) return toJson({ ...shown, certificate })
    const { names, issuer, serialNumber, fingerprint256, notBefore, notAfter, renewAt } = shown
    return labelled({
      names: names.join(', '),
      issuer,
      'serial number': serialNumber,
      'SHA-256': fingerprint256,
      'valid from': notBefore,
      'valid until': notAfter,
      'renews at': renewAt ?? 'never',
    })
  })
}

/** Finds why a name has no certificate: its order fails, or else what the service says. */
async function whyNone(service: CertService, domain: string, error: unknown): Promise<unknown> {
  if (!(error instanceof ClientError && error.code === 'CERT_NOT_FOUND')) return error
  // A service of an older version has no list of orders.
  const { value: order } = await service
    .failing({ name: domain })
    .next()
    .catch(() => ({ value: undefined }))
  if (!order) return error
  const failure = orderFailure(order, clientClock.now())
  const message = `${domain} has no certificate; the order ${order.id} fails: ${failure.message}`
  return new ClientError(failure.code, message, failure)
}

export interface WaitOptions extends CommandOptions {
  readonly wait?: boolean | undefined
}

/** Renews a certificate that is due. @throws UsageError, ClientError */
export function renew(name: string, options: WaitOptions, io: Io): Promise<string> {
  const domain = readName(name).text
  return ask(options, io, async (service) => {
    const { order, ...rest } = await service.renew(domain)
    const seen = order && options.wait ? await follow(service, { order, ...rest }, io) : order
    if (isJson(options, io)) return toJson(seen ?? { domain, status: 'done' })
    if (seen?.status !== 'pending') return `${domain} has a new certificate\n`
    return `the order ${seen.id} is under way: gatehouse-certs order ${seen.id} --wait\n`
  })
}

/** Revokes the certificates of a name. @throws UsageError, ClientError */
export function revoke(
  name: string,
  options: CommandOptions & { readonly reason?: string | undefined },
  io: Io,
): Promise<string> {
  const domain = readName(name).text
  const { reason } = options
  if (reason !== undefined && !Object.hasOwn(REVOCATION_REASONS, reason))
    throw new UsageError(`--reason is one of ${Object.keys(REVOCATION_REASONS).join(', ')}`)
  return ask(options, io, async (service) => {
    const revoked = await service.revoke(domain, reason)
    if (isJson(options, io)) return toJson(revoked)
    const { serialNumbers, unknownAtCa = [], unconfirmed = [] } = revoked
    return [
      ...serialNumbers.map((serial) => `${domain} ${serial} is revoked\n`),
      ...unknownAtCa.map((serial) => `the CA does not know ${serial}: it is revoked here only\n`),
      stillAnswering(unconfirmed),
    ].join('')
  })
}

/** Stops answering and renewing the certificates of a name. @throws UsageError, ClientError */
export function remove(name: string, options: CommandOptions, io: Io): Promise<string> {
  const domain = readName(name).text
  return ask(options, io, async (service) => {
    const { unconfirmed = [] } = await service.remove(domain)
    if (isJson(options, io)) return toJson({ domain, unconfirmed })
    const done = `${domain} is no longer answered or renewed; what was delivered stays valid until it expires\n`
    return done + stillAnswering(unconfirmed)
  })
}

function stillAnswering(replicas: readonly string[]): string {
  if (replicas.length === 0) return ''
  return `these replicas did not confirm it yet: ${replicas.map(printable).join(', ')}\n`
}

/** Shows the progress of an order. @throws ClientError */
export function order(id: string, options: WaitOptions, io: Io): Promise<string> {
  return ask(options, io, async (service) => {
    const found = await service.order(id)
    const seen = options.wait ? await follow(service, { order: found }, io) : found
    if (isJson(options, io)) return toJson(seen)
    const { names, status, step, since, lastError, nextTryAt } = seen
    return labelled({
      names: names.join(', '),
      status,
      step,
      since,
      ...(lastError && { 'last error': `${lastError.detail} [${lastError.code}]` }),
      ...(lastError?.action !== undefined && { 'what to do': lastError.action }),
      ...(nextTryAt !== undefined && { 'next try': nextTryAt }),
    })
  })
}

/** Waits until an order is done, and tells its steps meanwhile. */
function follow(service: CertService, waiting: PendingOrder, { stderr }: Io): Promise<OrderAnswer> {
  const info = (fields: object) => stderr.write(`${printable(Object(fields).step)}\n`)
  const log = { info, warn: info }
  const { signal } = new AbortController()
  const patienceMs = Number.POSITIVE_INFINITY
  return awaitOrder({ service, clock: clientClock, log, signal, patienceMs }, waiting)
}
