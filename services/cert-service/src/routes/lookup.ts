import type { Caller } from '@gatehouse/auth-core'
import { type Name, parseName } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { CertError } from '../errors.ts'
import { pointingTo } from '../issuance/request.ts'
import { mayAll } from '../plugins/access.ts'
import type { Right } from '../policy.ts'
import { NAME_PAGE } from '../store/certificates.ts'
import type { CertificateRecord } from '../store/store.ts'

/** Pages that a request reads at most, however little its caller may see. */
const MAX_PAGES = 20
const PAGE = 100

type Found = readonly [newest: CertificateRecord, ...older: CertificateRecord[]]

/** Reads the member `domain` of a body or path. */
export function readDomain(text: string): Name {
  return pointingTo('/domain', () => parseName(text))
}

/**
 * Finds certificates that are held and whose first name is `domain`, as far as the caller may do this
 * with all of their names: those with a key of ours first, then the newest.
 *
 * @throws CertError `CERT_NOT_FOUND`
 */
export async function findPermitted(
  { server, caller }: FastifyRequest,
  right: Right,
  domain: Name,
): Promise<Found> {
  const isFit = (record: CertificateRecord) => mayAll(server, caller, right, record)
  const [newest, ...older] = await firstFit(
    (skip) => server.store.findByDomain(domain.text, skip),
    isFit,
  )
  if (newest) return [newest, ...older]
  throw new CertError('CERT_NOT_FOUND', `no certificate for ${domain.text} is held`)
}

/**
 * As {@link findPermitted} for reading. If no certificate that is valid now has `domain` as its first
 * name, those that have it among others are found.
 *
 * @throws CertError `CERT_NOT_FOUND`
 */
export async function findReadable(request: FastifyRequest, domain: Name): Promise<Found> {
  const { server, caller } = request
  const { store, holdings, clock } = server
  const isFit = (record: CertificateRecord) =>
    record.notAfter > clock.now() && mayAll(server, caller, 'read', record)
  const byDomain = await firstFit((skip) => holdings.findByDomain(domain.text, skip), isFit)
  const [newest, ...older] =
    byDomain.length > 0
      ? byDomain
      : await firstFit((skip) => store.findByName(domain.text, skip), isFit)
  // Nothing is valid now: expired certificates explain why.
  return newest ? [newest, ...older] : findPermitted(request, 'read', domain)
}

/** The records that fit, of the first page that has any. */
export async function firstFit(
  read: (skip: number) => Promise<readonly CertificateRecord[]>,
  isFit: (record: CertificateRecord) => boolean,
): Promise<readonly CertificateRecord[]> {
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const records = await read(page * NAME_PAGE)
    const fitting = records.filter(isFit)
    if (fitting.length > 0 || records.length < NAME_PAGE) return fitting
  }
  return []
}

/** A listing of the store, and the cursor of each of its records. */
interface Listing<Cursor> {
  readonly start: Cursor
  list(page: { after: Cursor; limit: number }): Promise<readonly CertificateRecord[]>
  cursorOf(record: CertificateRecord): Cursor
}

/**
 * Reads a listing until `limit` certificates are found that the caller may read. If `next` is present,
 * there may be more after it, even if fewer were found.
 */
export async function readPermitted<Cursor>(
  app: FastifyInstance,
  caller: Caller,
  limit: number,
  { start, list, cursorOf }: Listing<Cursor>,
): Promise<{ records: CertificateRecord[]; next?: Cursor }> {
  const records: CertificateRecord[] = []
  let after = start
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const listed = await list({ after, limit: PAGE })
    for (const record of listed) {
      if (mayAll(app, caller, 'read', record)) records.push(record)
      after = cursorOf(record)
      if (records.length === limit) return { records, next: after }
    }
    if (listed.length < PAGE) return { records }
  }
  return { records, next: after }
}
