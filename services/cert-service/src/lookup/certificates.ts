import { setImmediate } from 'node:timers/promises'
import { positionOf } from '@gatehouse/cert-store/listing'
import {
  type CertificateRecord,
  type Listed,
  type Listing,
  type ListPage,
  NAME_PAGE,
  type OrderRecord,
  type Store,
} from '@gatehouse/cert-store/port'
import type { Certificate } from '@gatehouse/issuance'
import { pointingTo, profileOf, readName } from '@gatehouse/issuance/request'
import { preferBegun } from '@gatehouse/issuance/times'
import type { Name, Profile } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Right } from '../config/auth.ts'
import { CertError } from '../errors.ts'
import { mayAll, principalOf } from '../policy/authorize.ts'
import type { Principal } from '../policy/rules.ts'
import { cursorOf, findPosition } from './positions.ts'

/** The most pages that a request reads, however little its caller may see. */
const MAX_PAGES = 20
const PAGE = 100

type ReadPage = (skip: number) => Promise<readonly CertificateRecord[]>
type IsFit = (record: CertificateRecord) => boolean

/** A name, and of which profile the certificates are that are asked for by it. */
export interface Subject extends Name {
  readonly profile: Profile
}

export function readDomain(text: string, profile: Profile = 'server'): Subject {
  return { ...pointingTo('/domain', () => readName(text, profile)), profile }
}

/** Tells whether a certificate or order is of that profile. */
export const isOf =
  (profile: Profile) =>
  (certificate: { readonly issuer: string }): boolean =>
    profileOf(certificate) === profile

/**
 * Finds the certificate of this profile whose first name is `domain` and with all of whose names the
 * caller may do this: one with a key of ours before others, then the newest.
 * @throws CertError `CERT_NOT_FOUND`
 */
export async function findPermitted(
  request: FastifyRequest,
  right: Right,
  domain: Subject,
): Promise<CertificateRecord> {
  const { server } = request
  const caller = principalOf(request)
  const [newest] = await firstFit(
    (skip) => server.store.findByDomain(domain.text, skip),
    (record) => isOf(domain.profile)(record) && mayAll(server, caller, right, record),
  )
  if (newest) return newest
  throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
}

/** Finds a valid certificate that the caller may read, by its first name or else by any. @throws CertError `CERT_NOT_FOUND` */
export async function findReadable(request: FastifyRequest, domain: Subject): Promise<Certificate> {
  const { server } = request
  const { holdings } = server
  const { text } = domain
  const isFit = isOf(domain.profile)
  const caller = principalOf(request)
  const certificate = await findHeld(
    request,
    [text],
    async () =>
      pickValid(server, caller, (holdings.peekByDomain(text) ?? []).filter(isFit)) ??
      (await findValid(server, caller, (skip) => holdings.findByDomain(text, skip), isFit)) ??
      (await findByNames(server, caller, [text], isFit)),
    isFit,
  )
  if (certificate) return certificate
  await findPermitted(request, 'read', domain)
  throw new CertError('CERT_NOT_FOUND', `the certificate for ${text} has expired`)
}

/** Finds a certificate and caches it. If the store cannot be read, finds one of these names in memory. */
export async function findHeld(
  request: FastifyRequest,
  names: readonly string[],
  find: () => Promise<CertificateRecord | undefined>,
  isFit: IsFit,
): Promise<Certificate | undefined> {
  const { server, log } = request
  const { holdings } = server
  const changes = holdings.changes()
  try {
    const record = await find()
    return record && (await holdings.of(record, changes))
  } catch (error) {
    const fitting = holdings.remembered(names, error).filter(isFit)
    const remembered = pickValid(server, principalOf(request), fitting)
    if (!remembered) throw error
    log.warn({ err: error }, 'a certificate was served from memory: the store cannot be read')
    return holdings.of(remembered)
  }
}

/** Finds a valid certificate that has one of these names, the first one before the others, and that the caller may read. */
export async function findByNames(
  app: FastifyInstance,
  caller: Principal,
  names: readonly string[],
  isFit: IsFit,
): Promise<CertificateRecord | undefined> {
  for (const name of names) {
    const read = (skip: number) => app.store.findByName(name, skip)
    const record = await findValid(app, caller, read, isFit)
    if (record) return record
  }
  return undefined
}

/** The name of the wildcard that stands for the first label of a name, if there can be one (RFC 9525 section 6.3). */
export function wildcardOf({ kind, labels }: Name): string | undefined {
  const [, ...parent] = labels
  return kind === 'dns' && parent.length > 0 ? `*.${parent.join('.')}` : undefined
}

/** Finds the first certificate of a listing that fits, is valid now and may be read by the caller. */
async function findValid(
  app: FastifyInstance,
  caller: Principal,
  read: ReadPage,
  isFit: IsFit,
): Promise<CertificateRecord | undefined> {
  const isFound = (record: CertificateRecord) => isFit(record) && isReadable(app, caller, record)
  return preferBegun(await firstFit(read, isFound), app.clock.now())[0]
}

function pickValid(app: FastifyInstance, caller: Principal, records: readonly CertificateRecord[]) {
  const readable = records.filter((record) => isReadable(app, caller, record))
  return preferBegun(readable, app.clock.now())[0]
}

function isReadable(app: FastifyInstance, caller: Principal, record: CertificateRecord): boolean {
  return record.notAfter > app.clock.now() && mayAll(app, caller, 'read', record)
}

/** Finds the newest certificate of a name, ended or not: one whose first name it is before one that has it too. */
export async function findReadableByName(
  app: FastifyInstance,
  visitor: Principal,
  { text, profile }: Subject,
): Promise<CertificateRecord | undefined> {
  const isReadable = (record: CertificateRecord) =>
    isOf(profile)(record) && mayAll(app, visitor, 'read', record)
  const [record] = await firstFit((skip) => app.store.findByDomain(text, skip), isReadable)
  return record ?? (await firstFit((skip) => app.store.findByName(text, skip), isReadable))[0]
}

async function firstFit(read: ReadPage, isFit: IsFit): Promise<readonly CertificateRecord[]> {
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const records = await read(page * NAME_PAGE)
    const fitting = records.filter(isFit)
    if (fitting.length > 0 || records.length < NAME_PAGE) return fitting
  }
  return []
}

/** Pages that are read by the index of their order alone, as those who may see most find enough in them. */
const DIRECT_PAGES = 5

interface PermittedPage<Item> {
  /** The place that it begins after. */
  readonly cursor?: string | undefined
  readonly isBackwards?: boolean
  isFit?(record: Item): boolean
}

/**
 * Reads `limit` entries of a listing that the caller may read, and where the next page begins if there are more.
 * What the caller may not read has no influence on what it gives.
 * @throws CertError `CERT_NOT_FOUND` if the caller may see nothing at the cursor
 */
export async function readPermitted<Item extends Listed>(
  app: FastifyInstance,
  caller: Principal,
  limit: number,
  listing: Listing,
  read: (store: Store, listing: Listing, page: ListPage) => Promise<readonly Item[]>,
  { cursor, isBackwards = false, isFit = () => true }: PermittedPage<Item> = {},
): Promise<{ records: readonly Item[]; next?: string }> {
  const { without, names } = app.policy.scopeOf(caller, 'read')
  const narrow = { ...listing, without, ...(names && { names }) }
  const records: Item[] = []
  let from =
    cursor === undefined ? undefined : await findPosition(app, caller, cursor, listing.order)
  for (let page = 0; ; page += 1, await setImmediate()) {
    const about = page < DIRECT_PAGES ? listing : narrow
    const listed = await read(app.store, about, { from, isBackwards, limit: PAGE })
    records.push(...listed.filter((record) => isFit(record) && mayAll(app, caller, 'read', record)))
    const [shown, lastListed] = [records[limit - 1], listed.at(-1)]
    if (shown && records.length > limit)
      return { records: records.slice(0, limit), next: cursorOf(shown, listing.order) }
    if (!lastListed || listed.length < PAGE) return { records }
    from = positionOf(lastListed, listing.order)
  }
}

/** Finds an order that the requestor may read. @throws CertError `CERT_ORDER_NOT_FOUND` */
export async function findOrder(
  app: FastifyInstance,
  requestor: Principal,
  id: string,
): Promise<OrderRecord> {
  const order = await app.store.findOrder(id)
  if (order && mayAll(app, requestor, 'read', order)) return withStep(app, order)
  throw new CertError('CERT_ORDER_NOT_FOUND', 'there is no order that you may see with this id')
}

/** Gives an order that this replica works on its newer step. */
export function withStep({ issuance }: FastifyInstance, order: OrderRecord): OrderRecord {
  const flight = issuance.flights.get(order.requestKey)
  const underWay = flight?.order
  return underWay?.id === order.id ? { ...order, step: underWay.step } : order
}
