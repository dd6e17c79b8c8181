import type { RowOf } from '@gatehouse/store'
import type { OrderRecord } from '../port/records.ts'
import type { ORDERS } from '../schema/tables.ts'

export type OrderRow = RowOf<typeof ORDERS>

/** Makes an order of a row: without what is NULL, and what a record does not tell. */
export function orderOf(row: OrderRow): OrderRecord {
  const {
    state,
    sealedKey,
    askedBy,
    origin,
    configuration,
    lifetime,
    url: _,
    ran: __,
    ...order
  } = row
  return {
    ...order,
    ...(state !== null && { checkpoint: { state, sealedKey } }),
    ...(askedBy !== null && { askedBy }),
    ...(origin !== null && { origin }),
    ...(configuration !== null && { configuration }),
    ...(lifetime !== null && { lifetime }),
  } as OrderRecord
}
