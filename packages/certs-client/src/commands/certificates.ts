import { toTime } from '@gatehouse/net'
import { KEY_TYPES, REVOCATION_REASONS } from '@gatehouse/pki'
import { durationOf } from '@gatehouse/service-kit/config'
import {
  labelled,
  listing,
  localTime,
  printable,
  readChoice,
  readTime,
  type TableColumns,
  UsageError,
} from '@gatehouse/service-kit/program'
import { clientClock } from '../clock.ts'
import { ClientError } from '../errors.ts'
import { awaitOrder } from '../keep.ts'
import {
  type CertService,
  type FailingAnswer,
  type ListedAnswer,
  type OrderAnswer,
  orderFailure,
  type PendingOrder,
  type RenewalsAnswer,
  type RevokedAnswer,
  retryCommand,
} from '../service.ts'
import { checkForms, kebab } from '../settings.ts'
import { type ClientCommand, forEach, forEachName, type Io, open } from './ask.ts'

/** Lists the certificates that the caller may see, or what fails. */
export const list: ClientCommand = async function* (_, options, io) {
  checkForms(options)
  const { failing, ending, issuer } = options
  if (failing && ending !== undefined)
    throw new UsageError('--ending does not go with --failing, which lists the most urgent first')
  await using service = open(options, io)
  const endsBefore = toTime(clientClock.now() + (durationOf(ending ?? '') ?? 0))
  const about = { ...(issuer && { issuer }), ...(ending && { endsBefore }) }
  const rows = failing ? service.failing(about) : service.list(about)
  yield* listing<ListedRow>(rows, COLUMNS, options)
}

/** A certificate, or an order that fails and may have none. */
type ListedRow = Partial<ListedAnswer & FailingAnswer> & Pick<FailingAnswer, 'names' | 'issuer'>

const COLUMNS: TableColumns<ListedRow> = {
  NAME: ({ names }) => names[0],
  'MORE NAMES': ({ names }) => firstOf(names.slice(1), 1),
  ISSUER: ({ issuer }) => issuer,
  KEY: ({ keyType }) => keyType,
  EXPIRES: ({ notAfter = 'never issued' }) => notAfter,
  RENEWS: ({ renewAt }) => renewAt,
  SERVED: ({ served }) => served,
  'LAST FAILURE': (row) => failureOf(row)?.code,
  'FAILED AT': (row) => failureOf(row)?.failedAt,
  'NEXT TRY': ({ nextTryAt }) => nextTryAt,
  'TO TRY NOW': (row) => failureOf(row) && retryCommand(row),
  ORDER: ({ id }) => id,
}

const failureOf = ({ lastFailure, lastError }: ListedRow) => lastFailure ?? lastError

/** Names the first of some, and says how many there are more. */
export function firstOf(names: readonly string[], count: number): string {
  const more = names.length - count
  return `${names.slice(0, count).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** Shows certificates, without their private keys, and why their renewals fail. */
export const show = forEachName(async (name, service, { pem }) => {
  const [order] = await Array.fromAsync(service.failing({ name }))
  const { certificate, ...shown } = await service.show(name).catch((error) => {
    if (!(order && error instanceof ClientError && error.code === 'CERT_NOT_FOUND')) throw error
    throw failureFor(order, `${name} has no certificate; the order ${order.id} fails`)
  })
  const { names, issuer, serialNumber, fingerprint256, notBefore, notAfter, renewAt } = shown
  const text = labelled({
    names: names.join(', '),
    issuer,
    'serial number': serialNumber,
    'SHA-256': fingerprint256,
    'valid from': notBefore,
    'valid until': notAfter,
    'renews at': renewAt ?? 'never',
    ...(order && failureTexts(order)),
  })
  const { lastError: lastFailure, nextTryAt } = order ?? {}
  const value = { ...shown, certificate, lastFailure, nextTryAt }
  return { value, text: pem ? certificate : text }
})

/** Says what is wrong with an order, since when, when it is tried next, and how to try now. */
function failureTexts(order: OrderAnswer) {
  const { code, message, action } = orderFailure(order, clientClock.now())
  return { 'what is wrong': `${message} [${code}]`, 'what to do': action }
}

/** The failure of an order, after what it means for a name. */
function failureFor(order: OrderAnswer, meaning: string): ClientError {
  const failure = orderFailure(order, clientClock.now())
  return new ClientError(failure.code, `${meaning}: ${failure.message}`, failure)
}

/** The options of `renew` for many certificates at once. */
const OF_MANY = ['caller', 'issuer', 'under', 'keyType', 'before', 'spread', 'dryRun'] as const

/** Renews certificates that are due, tries now what has failed, or renews all that fit the options. */
export const renew = forEachName(async (name, service, options, io) => {
  checkForms(options)
  const { caller, issuer, under, spread, dryRun, now, wait } = options
  const before = options.before && toTime(readTime('--before', options.before, clientClock.now()))
  const keyType = readChoice('--key-type', options.keyType, KEY_TYPES)
  const scope = { caller, issuer, under, keyType, before }
  if (name === '' && Object.values(scope).every((value) => value === undefined))
    throw new UsageError('renew needs NAME, --caller, --issuer, --under, --key-type or --before')
  const ofMany = OF_MANY.find((option) => options[option] !== undefined)
  if (ofMany && (now || wait))
    throw new UsageError(`--${now ? 'now' : 'wait'} does not go with --${kebab(ofMany)}`)
  const about = { ...(name !== '' && { domain: name }) }
  if (name === '' || ofMany) {
    const answer = await service.renewAll({ ...about, ...scope, spread, dryRun })
    return { value: { ...about, ...answer }, text: renewalsText(answer, dryRun) }
  }
  const outcome = now ? await retried(service, name) : await service.renew(name)
  if (outcome && 'asked' in outcome)
    return { value: { ...about, ...outcome.asked }, text: renewalsText(outcome.asked) }
  const waiting = outcome && 'order' in outcome ? outcome : undefined
  const order = waiting && wait ? await follow(service, waiting, io) : waiting?.order
  if (order?.status === 'failed') throw failureFor(order, `${name} is not renewed`)
  return {
    value: order ?? { ...about, status: 'done' },
    text:
      order?.status === 'pending'
        ? `the order ${order.id} is under way: gatehouse-certs order ${order.id} --wait\n`
        : `${name} has a new certificate\n`,
  }
})

/** Says what the service renews, and what it can only ask for. */
function renewalsText(answer: RenewalsAnswer, isDryRun = false): string {
  const { renewing, asked, neverAsking, until } = answer
  const would = isDryRun ? 'would be ' : ''
  const lines = [
    ...(renewing > 0
      ? [`${renewing} ${would}renewed by the service until ${localTime(until)}`]
      : []),
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

/** Revokes the certificates of names, or of accounts, which end. */
export const revoke: ClientCommand = (names, options, io) => {
  const { reason, account: ids } = options
  if ((names.length === 0) === (ids === undefined))
    throw new UsageError('revoke needs either NAME or --account ID')
  readChoice('--reason', reason, Object.keys(REVOCATION_REASONS))
  return ids ? revokeAccounts(ids, options, io) : revokeNames(names, options, io)
}

const revokeNames = forEachName(async (domain, service, { reason }, io) => {
  const revoked = await revokeAll(io, () => service.revoke(domain, reason))
  return { value: { domain, ...revoked }, text: revokedText(domain, revoked) }
})

const revokeAccounts = forEach(async (account, service, { reason }, io) => {
  const revoked = await revokeAll(io, () => service.revokeAcmeAccount(account, reason))
  const text = `the account ${printable(account)} is ended\n${revokedText(account, revoked)}`
  return { value: { account, ...revoked }, text }
})

/** Revokes until nothing is left, since the service does not wait long for public CAs. */
async function revokeAll(
  { stderr }: Io,
  revokeNext: () => Promise<RevokedAnswer>,
): Promise<RevokedAnswer> {
  const { notRevoked, ...revoked } = await revokeNext()
  // If the public CAs revoke none of the rest, the answer is an error.
  for (let pending = notRevoked; pending; ) {
    const { serialNumbers } = revoked
    const progress = `${serialNumbers.length} revoked, ${pending.length} not: ${pending[0]?.detail}`
    stderr.write(`${printable(progress)}\n`)
    const next = await revokeNext()
    serialNumbers.push(...next.serialNumbers)
    revoked.unknownAtCa = [...(revoked.unknownAtCa ?? []), ...(next.unknownAtCa ?? [])]
    pending = next.notRevoked
  }
  return revoked
}

function revokedText(subject: string, { serialNumbers, ...revoked }: RevokedAnswer): string {
  const { unknownAtCa = [], unconfirmed = [] } = revoked
  const lines = [
    ...serialNumbers.map((serial) => `${printable(subject)} ${serial} is revoked\n`),
    ...unknownAtCa.map((serial) => `the CA does not know ${serial}: it is revoked here only\n`),
    stillAnswering(unconfirmed),
  ]
  return lines.join('')
}

/** Stops answering and renewing the certificates of names. */
export const remove = forEachName(async (domain, service) => {
  const { unconfirmed = [] } = await service.remove(domain)
  const done = `${domain} is no longer answered or renewed; what was delivered stays valid until it expires\n`
  return { value: { domain, unconfirmed }, text: done + stillAnswering(unconfirmed) }
})

function stillAnswering(replicas: readonly string[]): string {
  if (replicas.length === 0) return ''
  return `these replicas did not confirm it yet: ${replicas.map(printable).join(', ')}\n`
}

/** Shows the progress of an order. */
export const order = forEach(async (id, service, { wait }, io) => {
  const current = await service.order(id)
  const value = wait ? await follow(service, { order: current }, io) : current
  const { names, status, step, since } = value
  const text = labelled({
    names: names.join(', '),
    status,
    step,
    since,
    ...(value.lastError && failureTexts(value)),
  })
  return { value, text }
})

/** Waits until an order is done, and tells its steps meanwhile. */
function follow(service: CertService, waiting: PendingOrder, { stderr }: Io): Promise<OrderAnswer> {
  const info = (fields: object) => stderr.write(`${printable(Object(fields).step)}\n`)
  const log = { info, warn: info, error: info }
  const { signal } = new AbortController()
  const patienceMs = Number.POSITIVE_INFINITY
  return awaitOrder({ service, clock: clientClock, log, signal, patienceMs }, waiting)
}
