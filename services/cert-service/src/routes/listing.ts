import type { FastifyInstance } from 'fastify'
import { preferBegun } from '../issuers/issuer.ts'
import { isAbout, type Question } from '../pages/search.ts'
import type { View } from '../pages/view.ts'
import { mayAll } from '../policy.ts'
import { positionOf } from '../store/listing.ts'
import type { CertificateRecord, OrderRecord, Position } from '../store/store.ts'
import { firstFit, readPermitted } from './lookup.ts'
import type { Visitor } from './visitors.ts'

const PAGE = 50
/** Failed orders that are looked at, the newest ones. */
export const FAILED_LOOKED_AT = 100

/** Certificates that a visitor may read, and where the pages before and after them begin. */
export interface ListedPage {
  readonly shown: readonly CertificateRecord[]
  readonly previous?: Position | undefined
  readonly next?: Position | undefined
}

export async function readListed(
  app: FastifyInstance,
  visitor: Visitor,
  view: View,
  question: Question | undefined,
): Promise<ListedPage> {
  if (question?.fingerprint) return readByFingerprint(app, visitor, question.fingerprint)
  const { order, state, issuer, place } = view
  const listing = { order, state, issuer, search: question?.search, now: app.clock.now() }
  const at = (record: CertificateRecord) => positionOf(record, order)
  const read = async (start: Position | undefined, isBackwards: boolean) => {
    const { records, next } = await readPermitted<Position | undefined>(app, visitor, PAGE + 1, {
      start,
      list: ({ after, limit }) =>
        app.store.listCertificates(listing, { from: after, isBackwards, limit }),
      cursorOf: at,
    })
    const shown = records.slice(0, PAGE)
    return { shown, beyond: records.length > PAGE ? shown.map(at).at(-1) : next }
  }
  const onwards = async (start?: Position): Promise<ListedPage> => {
    const { shown, beyond } = await read(start, false)
    return { shown, previous: start && (shown.map(at)[0] ?? start), next: beyond }
  }
  if (!place?.isBackwards) return onwards(place?.position)
  const { shown, beyond } = await read(place.position, true)
  // The first page is a full one, whatever was added before it since.
  if (!beyond) return onwards()
  return { shown: shown.toReversed(), previous: beyond, next: shown.map(at)[0] ?? place.position }
}

async function readByFingerprint(
  app: FastifyInstance,
  visitor: Visitor,
  sha256: string,
): Promise<ListedPage> {
  const found = await app.store.findByFingerprint(sha256)
  return { shown: found && mayAll(app, visitor, 'read', found) ? [found] : [] }
}

/** A certificate that is valid for the whole name that was asked for, by itself before a wildcard. */
export async function findCovering(
  app: FastifyInstance,
  visitor: Visitor,
  { name, search: { wildcard } }: Question,
): Promise<CertificateRecord | undefined> {
  const now = app.clock.now()
  const isFit = (record: CertificateRecord) =>
    record.notAfter > now && mayAll(app, visitor, 'read', record)
  for (const text of [name?.text, wildcard]) {
    const found =
      text === undefined ? [] : await firstFit((skip) => app.store.findByName(text, skip), isFit)
    if (found[0]) return preferBegun(found, now)[0]
  }
  return undefined
}

/** Failed orders that the view is about, on its first page. */
export async function readFailed(
  app: FastifyInstance,
  visitor: Visitor,
  { state, issuer, place }: View,
  question: Question | undefined,
): Promise<readonly OrderRecord[]> {
  if (place || (state !== undefined && state !== 'failing')) return []
  const failed = await app.store.listFailedOrders(FAILED_LOOKED_AT)
  return failed.filter(
    (order) =>
      (!question || isAbout(order, question)) &&
      (issuer === undefined || order.issuer === issuer) &&
      mayAll(app, visitor, 'read', order),
  )
}
