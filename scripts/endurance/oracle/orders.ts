import type { Evidence } from '../evidence.ts'
import type { Journal } from '../journal.ts'
import { count, groupBy, type Verdict, verdictOf } from './verdict.ts'

/** Names that start with it are those of ACME clients, who renew when they want to. */
export const CLIENT_PREFIX = 'client-'

/** An order of an ACME client has one certificate, which is what its client was given. */
export function judgeOrders(journal: Journal, { stored, orders }: Evidence): Verdict {
  const verdict = verdictOf('each order of an ACME client ends, with one certificate')
  const issued = groupBy(
    stored.filter(({ servedOrder }) => servedOrder !== null),
    ({ servedOrder }) => servedOrder ?? '',
  )
  const known = new Map(orders.map((order) => [order.id, order]))
  for (const [order, all] of issued) {
    const isOne = all.length === 1 && known.get(order)?.fingerprint === all[0]?.fingerprint
    count(verdict, isOne ? undefined : `${order} has ${all.length} certificates, or another one`)
  }
  for (const { name, order, serial } of journal.of('acme order')) {
    const row = known.get(order)
    const isEnded = row?.status === 'valid' || row?.status === 'invalid'
    if (serial === undefined)
      count(verdict, isEnded ? undefined : `${name}: ${order} failed and is ${row?.status}`)
    else {
      const certificate = stored.find(({ fingerprint }) => fingerprint === row?.fingerprint)
      const isTold = certificate?.serial === serial
      count(verdict, isTold ? undefined : `${name}: ${order} gave ${serial} and is ${row?.status}`)
    }
  }
  return verdict
}
