import type { Listed, Listing, ListOrder, ListPage, OrderRecord, Position } from './records.ts'
import type { Store } from './store.ts'

/** The offset of the next attempt of an order without a certificate, which comes after everything that ends. */
export const NO_END = 1e14

export function isOrder(listed: Listed): listed is OrderRecord {
  return 'status' in listed
}

/** Returns the position of a certificate or an order in a listing. */
export function positionOf(listed: Listed, order: ListOrder): Position {
  const { id } = listed
  const [name = ''] = listed.names
  if (!isOrder(listed)) {
    const { renewAt, notAfter } = listed
    return { key: { next: renewAt ?? notAfter, expiry: notAfter, name, newest: id }[order], id }
  }
  const next = listed.nextTryAt ?? listed.since
  return { key: { next, expiry: next + NO_END, name, newest: listed.since }[order], id }
}

/** A page of a listing, of certificates and of failed orders that have none. */
export async function listAll(
  store: Pick<Store, 'listCertificates' | 'listFailedOrders'>,
  listing: Listing,
  page: ListPage,
): Promise<readonly Listed[]> {
  const { order, state = 'failing' } = listing
  const [certificates, orders] = await Promise.all([
    store.listCertificates(listing, page),
    state === 'failing' ? store.listFailedOrders(listing, page) : [],
  ])
  const sign = isDescending(order, page) ? -1 : 1
  const compare = (a: Listed, b: Listed) => {
    const keyOfA = positionOf(a, order).key
    const keyOfB = positionOf(b, order).key
    if (keyOfA !== keyOfB) return keyOfA < keyOfB ? -sign : sign
    return sign * (Number(isOrder(a)) - Number(isOrder(b)))
  }
  return [...certificates, ...orders].toSorted(compare).slice(0, page.limit)
}

export function isDescending(order: ListOrder, { isBackwards = false }: ListPage): boolean {
  return (order === 'newest') !== isBackwards
}
