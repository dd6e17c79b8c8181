import type { FastifyInstance } from 'fastify'
import type { View } from '../pages/view.ts'
import { mayAll } from '../policy.ts'
import { positionOf } from '../store/listing.ts'
import type { CertificateRecord, OrderRecord, Position } from '../store/store.ts'
import { readPermitted } from './lookup.ts'
import type { Visitor } from './visitors.ts'

const PAGE = 50
const FAILED_LOOKED_AT = 100

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
): Promise<ListedPage> {
  const { order, state, issuer, place } = view
  const text = view.search.toLowerCase()
  const search = text === '' ? undefined : { part: text, serialNumber: text }
  const listing = { order, state, issuer, search, now: app.clock.now() }
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

/** Failed orders that the view is about, on its first page. */
export async function readFailed(
  app: FastifyInstance,
  visitor: Visitor,
  { search, state, issuer, place }: View,
): Promise<readonly OrderRecord[]> {
  if (place || (state !== undefined && state !== 'failing')) return []
  const text = search.toLowerCase()
  const failed = await app.store.listFailedOrders(FAILED_LOOKED_AT)
  return failed.filter(
    (order) =>
      order.names.some((name) => name.includes(text)) &&
      (issuer === undefined || order.issuer === issuer) &&
      mayAll(app, visitor, 'read', order),
  )
}
