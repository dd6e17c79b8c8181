import type { LimitedOrder } from '../issuers/acme/limits.ts'
import { setOf } from './quotas.ts'

/** An order of which nothing was heard for so long will not come to a certificate. */
const GIVEN_UP_MS = 3_600_000

/** What the orders under way are going to use. */
export interface Reservations {
  start(order: LimitedOrder, keys: readonly string[]): void
  /** One of its keys was used. */
  drop(order: LimitedOrder, key: string): void
  end(order: LimitedOrder): void
  /** How many are under way that may use it, and until when the first of them at most. */
  of(key: string): { readonly count: number; readonly until: number }
}

/** There is one order at a time for a set of names: its next try takes the place of the last. */
export function createReservations(now: () => number): Reservations {
  const underway = new Map<string, { readonly keys: Set<string>; since: number }>()
  const idOf = ({ directory, names }: LimitedOrder) => `${directory} ${setOf(names)}`

  return {
    start(order, keys) {
      if (keys.length > 0) underway.set(idOf(order), { keys: new Set(keys), since: now() })
    },
    drop: (order, key) => void underway.get(idOf(order))?.keys.delete(key),
    end: (order) => void underway.delete(idOf(order)),
    of(key) {
      let count = 0
      let until = Number.POSITIVE_INFINITY
      for (const [id, reservation] of underway) {
        // One of a clock that was ahead counts from when the clock is right.
        reservation.since = Math.min(reservation.since, now())
        const end = reservation.since + GIVEN_UP_MS
        if (end <= now()) underway.delete(id)
        else if (reservation.keys.has(key)) {
          count += 1
          until = Math.min(until, end)
        }
      }
      return { count, until }
    },
  }
}
