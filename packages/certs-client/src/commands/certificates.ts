import { REVOCATION_REASONS } from '@gatehouse/pki'
import { escaped, printable, UsageError } from '@gatehouse/service-kit/program'
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
  type RenewalsAnswer,
} from '../service.ts'
import {
  type ConnectionOptions,
  checkForms,
  kebab,
  type OptionValues,
  readBefore,
  readConnection,
  readKeyType,
  readName,
  readProfile,
  type Texts,
} from '../settings.ts'
import { firstOf, labelled, table } from './table.ts'

/** The options of these commands, each of which some of them have. */
export interface CommandOptions
  extends ConnectionOptions,
    OptionValues<'json' | 'failing' | 'pem' | 'wait' | 'dryRun' | 'renew' | 'now', boolean>,
    OptionValues<'noCross' | 'force' | 'forgetKey' | 'yes', boolean>,
    OptionValues<'keep' | 'only', readonly string[]>,
    Texts<'reason' | 'caller' | 'spread' | 'end' | 'adopt' | 'account' | 'profile'>,
    Texts<'root' | 'rootKey' | 'signerKey'>,
    Texts<'issuedBy' | 'under' | 'keyType' | 'before'> {}

export interface Io {
  readonly env: NodeJS.ProcessEnv
  readonly stdout: { readonly isTTY?: boolean }
  readonly stderr: { write(text: string): unknown }
  readonly actionFor: ActionFor
  /** Has the command end with exit code 1, after what it prints. */
  readonly fail?: () => void
}

/** An answer as JSON has it, and as people read it. */
interface Printable {
  readonly value: unknown
  readonly text: string
}

/** Asks the service, and gives its answer. */
export async function ask(
  options: CommandOptions,
  io: Io,
  step: (service: CertService) => Promise<Printable>,
): Promise<string> {
  await using service = open(options, io)
  return print(await step(service), options, io)
}

/** Opens the API, with warnings on standard error. @throws UsageError */
export function open(
  options: CommandOptions,
  { env, stderr, actionFor }: Io,
): CertService & AsyncDisposable {
  const warn = (fields: object, message: string) =>
    stderr.write(escaped(`warning: ${Object.values(fields).join(' ')}: ${message}\n`))
  const profile = readProfile(options.profile)
  const context = { clock: clientClock, log: { warn }, actionFor, profile }
  return openService(readConnection(options, env), context)
}

/** Gives an answer as JSON unless a person reads it. */
export function print(
  { value, text }: Printable,
  { json, pem }: CommandOptions,
  { stdout }: Io,
): string {
  const isForPeople = json !== true && stdout.isTTY === true
  return isForPeople || pem ? text : `${JSON.stringify(value, null, 2)}\n`
}

/** Reads a name of the kind of certificates that is asked for. @throws UsageError */
function nameOf(name: string, { profile }: CommandOptions): string {
  return readName(name, readProfile(profile)).text
}

/** Lists the certificates that the caller may see, or what fails. @throws UsageError, ClientError */
export function list(_: string, options: CommandOptions, io: Io): Promise<string> {
  return ask(options, io, options.failing ? listFailing : listCertificates)
}

function listCertificates(service: CertService): Promise<Printable> {
  return listing(service.list(), 'There is no certificate that you may see.\n', {
    NAME: ({ domain }) => domain,
    'MORE NAMES': ({ names }) => firstOf(names.slice(1), 1),
    ISSUER: ({ issuer }) => issuer,
    KEY: ({ keyType }) => keyType,
    EXPIRES: ({ notAfter }) => shortTime(notAfter),
    RENEWS: ({ renewAt }) => shortTime(renewAt),
    SERVED: ({ served = '' }) => served,
    'LAST FAILURE': ({ lastFailure }) => lastFailure?.code ?? '',
    'FAILED AT': ({ lastFailure }) => shortTime(lastFailure?.failedAt),
    'NEXT TRY': ({ nextTryAt }) => shortTime(nextTryAt),
  })
}

function listFailing(service: CertService): Promise<Printable> {
  return listing(service.failing(), 'Nothing fails that you may see.\n', {
    NAME: ({ names }) => names[0] ?? '',
    'MORE NAMES': ({ names }) => firstOf(names.slice(1), 1),
    ISSUER: ({ issuer }) => issuer,
    EXPIRES: ({ notAfter = 'never issued' }) => shortTime(notAfter),
    'NEXT TRY': ({ nextTryAt }) => shortTime(nextTryAt),
    'LAST FAILURE': ({ lastError }) => lastError?.code ?? '',
    'FAILED AT': ({ lastError }) => shortTime(lastError?.failedAt),
    ORDER: ({ id }) => id,
  })
}

export async function listing<T>(
  items: AsyncIterable<T>,
  none: string,
  columns: Readonly<Record<string, (item: T) => string>>,
): Promise<Printable> {
  const value = await Array.fromAsync(items)
  const rows = value.map((item) => Object.values(columns).map((cell) => cell(item)))
  return { value, text: rows.length === 0 ? none : table(Object.keys(columns), rows) }
}

/** Writes a time to the minute, in UTC. */
export function shortTime(time = ''): string {
  return time.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*$/, '$1 $2')
}

/** Shows one certificate, without its private key. @throws UsageError, ClientError */
export function show(name: string, options: CommandOptions, io: Io): Promise<string> {
  return ask(options, io, async (service) => {
    const domain = nameOf(name, options)
    const { certificate, ...shown } = await service
      .show(domain)
      .catch(async (error) => Promise.reject(await whyNone(service, domain, error)))
    const { names, issuer, serialNumber, fingerprint256, notBefore, notAfter, renewAt } = shown
    const text = labelled({
      names: names.join(', '),
      issuer,
      'serial number': serialNumber,
      'SHA-256': fingerprint256,
      'valid from': notBefore,
      'valid until': notAfter,
      'renews at': renewAt ?? 'never',
    })
    return { value: { ...shown, certificate }, text: options.pem ? certificate : text }
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
  return failureOf(order, `${domain} has no certificate; the order ${order.id} fails`)
}

/** The failure of an order, after what it means for a name. */
function failureOf(order: OrderAnswer, meaning: string): ClientError {
  const failure = orderFailure(order, clientClock.now())
  return new ClientError(failure.code, `${meaning}: ${failure.message}`, failure)
}

/** The options of `renew` for many certificates at once. */
const OF_MANY = ['caller', 'issuedBy', 'under', 'keyType', 'before', 'spread', 'dryRun'] as const

/** Renews a certificate that is due, tries now what has failed, or renews all that fit the options. @throws UsageError, ClientError */
export function renew(name: string, options: CommandOptions, io: Io): Promise<string> {
  checkForms(options)
  const { caller, issuedBy: issuer, under, spread, dryRun, now, wait } = options
  const before = readBefore(options.before)
  const scope = { caller, issuer, under, keyType: readKeyType(options.keyType), before }
  if (name === '' && Object.values(scope).every((value) => value === undefined))
    throw new UsageError('renew needs NAME, --caller, --issued-by, --under, --key-type or --before')
  const domain = name === '' ? undefined : nameOf(name, options)
  const ofMany = OF_MANY.find((option) => options[option] !== undefined)
  if (ofMany && (now || wait))
    throw new UsageError(`--${now ? 'now' : 'wait'} does not go with --${kebab(ofMany)}`)
  if (domain === undefined || ofMany)
    return ask(options, io, async (service) => {
      const about = { ...(domain !== undefined && { domain }), ...scope, spread, dryRun }
      const value = await service.renewAll(about)
      return { value, text: renewalsText(value, dryRun) }
    })
  return renewOne(domain, options, io)
}

function renewOne(domain: string, options: CommandOptions, io: Io): Promise<string> {
  return ask(options, io, async (service) => {
    const outcome = options.now ? await retried(service, domain) : await service.renew(domain)
    if (outcome && 'asked' in outcome)
      return { value: outcome.asked, text: renewalsText(outcome.asked) }
    const waiting = outcome && 'order' in outcome ? outcome : undefined
    const order = waiting && options.wait ? await follow(service, waiting, io) : waiting?.order
    if (order?.status === 'failed') throw failureOf(order, `${domain} is not renewed`)
    return {
      value: order ?? { domain, status: 'done' },
      text:
        order?.status === 'pending'
          ? `the order ${order.id} is under way: gatehouse-certs order ${order.id} --wait\n`
          : `${domain} has a new certificate\n`,
    }
  })
}

/** Says what the service renews, and what it can only ask for. */
function renewalsText(answer: RenewalsAnswer, isDryRun = false): string {
  const { renewing, asked, neverAsking, until } = answer
  const would = isDryRun ? 'would be ' : ''
  const lines = [
    ...(renewing > 0 ? [`${renewing} ${would}renewed by the service until ${until}`] : []),
    ...(asked > 0 ? [`${asked} ACME clients ${isDryRun ? 'would be' : 'are'} asked to renew`] : []),
    ...neverAsking.map(
      ({ domain, client = 'an ACME client', address = 'an unknown address', isEnded }) => {
        const cure = isEnded
          ? 'has an account that has ended: have it make another one'
          : 'never asks: restart it there, or run it by hand'
        return printable(`${domain}: ${client} at ${address} ${cure}`)
      },
    ),
  ]
  return lines.length > 0
    ? `${lines.join('\n')}\n`
    : 'no certificate that is in service and renewed fits\n'
}

/** The order that came of another try: one that failed or is under way before one that is done. */
async function retried(service: CertService, domain: string): Promise<PendingOrder | undefined> {
  const orders = await service.retry(domain)
  const firstOf = (state: string) => orders.find(({ status }) => status === state)
  const order = firstOf('failed') ?? firstOf('pending')
  return order && { order }
}

/** Revokes the certificates of a name, or of an account that it ends. @throws UsageError, ClientError */
export function revoke(name: string, options: CommandOptions, io: Io): Promise<string> {
  const { reason, account } = options
  if ((name === '') === (account === undefined))
    throw new UsageError('revoke needs either NAME or --account ID')
  const subject = account === undefined ? nameOf(name, options) : printable(account)
  if (reason !== undefined && !Object.hasOwn(REVOCATION_REASONS, reason))
    throw new UsageError(`--reason is one of ${Object.keys(REVOCATION_REASONS).join(', ')}`)
  return ask(options, io, async (service) => {
    const ask = () =>
      account === undefined
        ? service.revoke(subject, reason)
        : service.revokeAcmeAccount(account, reason)
    const { notRevoked, ...value } = await ask()
    // The service does not wait long for public CAs. If they revoke none of the rest, its answer is an error.
    for (let pending = notRevoked; pending; ) {
      const { serialNumbers } = value
      const progress = `${serialNumbers.length} revoked, ${pending.length} not: ${pending[0]?.detail}`
      io.stderr.write(`${printable(progress)}\n`)
      const next = await ask()
      serialNumbers.push(...next.serialNumbers)
      value.unknownAtCa = [...(value.unknownAtCa ?? []), ...(next.unknownAtCa ?? [])]
      pending = next.notRevoked
    }
    const { serialNumbers, unknownAtCa = [], unconfirmed = [] } = value
    const lines = [
      ...(account === undefined ? [] : [`the account ${subject} is ended\n`]),
      ...serialNumbers.map((serial) => `${subject} ${serial} is revoked\n`),
      ...unknownAtCa.map((serial) => `the CA does not know ${serial}: it is revoked here only\n`),
      stillAnswering(unconfirmed),
    ]
    return { value, text: lines.join('') }
  })
}

/** Stops answering and renewing the certificates of a name. @throws UsageError, ClientError */
export function remove(name: string, options: CommandOptions, io: Io): Promise<string> {
  const domain = nameOf(name, options)
  return ask(options, io, async (service) => {
    const { unconfirmed = [] } = await service.remove(domain)
    const done = `${domain} is no longer answered or renewed; what was delivered stays valid until it expires\n`
    return { value: { domain, unconfirmed }, text: done + stillAnswering(unconfirmed) }
  })
}

function stillAnswering(replicas: readonly string[]): string {
  if (replicas.length === 0) return ''
  return `these replicas did not confirm it yet: ${replicas.map(printable).join(', ')}\n`
}

/** Shows the progress of an order. @throws ClientError */
export function order(id: string, options: CommandOptions, io: Io): Promise<string> {
  return ask(options, io, async (service) => {
    const current = await service.order(id)
    const value = options.wait ? await follow(service, { order: current }, io) : current
    const { names, status, step, since, lastError, nextTryAt } = value
    const text = labelled({
      names: names.join(', '),
      status,
      step,
      since,
      ...(lastError && { 'last error': `${lastError.detail} [${lastError.code}]` }),
      ...(lastError?.action !== undefined && { 'what to do': lastError.action }),
      ...(nextTryAt !== undefined && { 'next try': nextTryAt }),
    })
    return { value, text }
  })
}

/** Waits until an order is done, and tells its steps meanwhile. */
function follow(service: CertService, waiting: PendingOrder, { stderr }: Io): Promise<OrderAnswer> {
  const info = (fields: object) => stderr.write(`${printable(Object(fields).step)}\n`)
  const log = { info, warn: info, error: info }
  const { signal } = new AbortController()
  const patienceMs = Number.POSITIVE_INFINITY
  return awaitOrder({ service, clock: clientClock, log, signal, patienceMs }, waiting)
}
