import { indexable } from '@gatehouse/store'

/** The amount of a limit that an order under way is going to use. */
export interface Reservation {
  readonly key: string
  /** The request key that it is for: there is one order at a time for each. */
  readonly order: string
  readonly since: number
}

/**
 * The used share of limits by key, in epoch milliseconds: when a bucket is full again, or until when a
 * fact holds. Notes what is changed, so that a store can save it. Keys and orders are as an index has them.
 */
export class Usage {
  readonly changed = new Map<string, number>()
  readonly ended = new Set<string>()
  readonly #until: ReadonlyMap<string, number | null>
  readonly #stored: ReadonlySet<Reservation>
  #reservations: readonly Reservation[]

  constructor(
    rows: readonly { readonly key: string; readonly until: number | null }[],
    reservations: readonly Reservation[],
  ) {
    this.#until = new Map(rows.map(({ key, until }) => [key, until]))
    this.#stored = new Set(reservations)
    this.#reservations = reservations
  }

  /** New reservations, also by orders that have `ended` before. */
  get begun(): readonly Reservation[] {
    return this.#reservations.filter((reservation) => !this.#stored.has(reservation))
  }

  /** The same, for a question: what is changed in it is not saved. */
  copy(): Usage {
    const rows = [...this.#until, ...this.changed].map(([key, until]) => ({ key, until }))
    return new Usage(rows, this.#reservations)
  }

  /** 0 for a key that has no row. */
  until(key: string): number {
    const indexed = indexable(key)
    return this.changed.get(indexed) ?? this.#until.get(indexed) ?? 0
  }

  /** Gives {@link until}, put right if it is later than `latest`: then a clock was ahead when it was written. */
  untilAtMost(key: string, latest: number): number {
    const until = this.until(key)
    if (until <= latest) return until
    this.set(key, latest)
    return latest
  }

  set(key: string, until: number): void {
    this.changed.set(indexable(key), until)
  }

  /**
   * The reservations of a key. One that is older than `lifetime` ends; one from after `now` begins now, as a clock
   * was ahead.
   */
  reservations(key: string, now: number, lifetime: number): readonly Reservation[] {
    const indexed = indexable(key)
    for (const reservation of this.#of(indexed)) {
      if (reservation.since > now) this.#begin({ ...reservation, since: now })
      else if (reservation.since + lifetime <= now) this.end(reservation.order)
    }
    return this.#of(indexed)
  }

  /** Reserves keys for an order, in place of what it had reserved. */
  reserve(order: string, keys: readonly string[], since: number): void {
    this.end(order)
    for (const key of keys) this.#begin({ key: indexable(key), order: indexable(order), since })
  }

  /** Ends all reservations of an order. */
  end(order: string): void {
    const ended = indexable(order)
    this.ended.add(ended)
    this.#reservations = this.#reservations.filter((reservation) => reservation.order !== ended)
  }

  #of(key: string): readonly Reservation[] {
    return this.#reservations.filter((reservation) => reservation.key === key)
  }

  #begin(begun: Reservation): void {
    const remaining = this.#reservations.filter(
      ({ key, order }) => key !== begun.key || order !== begun.order,
    )
    this.#reservations = [...remaining, begun]
  }
}
