import { isOrder, listAll } from '@gatehouse/cert-store/listing'
import type { CertificateRecord, Listed, Listing, OrderRecord } from '@gatehouse/cert-store/port'
import { rerouteRequest } from '@gatehouse/issuance/request'
import type { FastifyInstance } from 'fastify'
import type { Principal } from '../policy/rules.ts'
import { readPermitted } from './certificates.ts'

/** Reads what fails, the most urgent first: what ends soonest, then without a certificate what is tried soonest. */
export async function readFailing(
  app: FastifyInstance,
  caller: Principal,
  limit: number,
  about: Pick<Listing, 'issuer' | 'search'>,
  page?: Parameters<typeof readPermitted>[5],
) {
  const listing = { ...about, order: 'expiry', state: 'failing', now: app.clock.now() } as const
  const { records, next } = await readPermitted(app, caller, limit, listing, listAll, page)
  const rows = await withOrders(app, records)
  // A certificate may have been issued meanwhile.
  const failing = rows.flatMap(({ record, order }) => (order ? [{ record, order }] : []))
  return { failing, next }
}

/** Finds the latest order about each certificate: that of the issuer of today, if it fails where a fallback has signed. */
export async function findOrdersAbout(
  { store, issuers }: FastifyInstance,
  records: readonly CertificateRecord[],
): Promise<(OrderRecord | undefined)[]> {
  const keys = records.map((record) =>
    // The client of an account renews by itself.
    record.account ? undefined : rerouteRequest(record, issuers)?.requestKey,
  )
  const ownKeys = records.map(({ requestKey }) => requestKey)
  const orders = await store.findOrders([...ownKeys, ...keys.filter((key) => key !== undefined)])
  return records.map(({ requestKey }, i) => {
    const todays = orders.get(keys[i] ?? '')
    return todays?.status === 'failed' ? todays : orders.get(requestKey)
  })
}

/** Finds the latest order of each that is listed, beside its certificate if there is one. */
export async function withOrders({ store }: FastifyInstance, listedRows: readonly Listed[]) {
  const certificates = listedRows.filter((listed) => !isOrder(listed))
  const orders = await store.findOrders(certificates.map(({ requestKey }) => requestKey))
  return listedRows.map((listed) => {
    if (isOrder(listed)) return { order: listed }
    return { record: listed, order: orders.get(listed.requestKey) }
  })
}
