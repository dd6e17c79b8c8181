/** What an order under way is going to use of a limit. */
export interface Reservation {
  readonly key: string
  /** What it is for: there is one order at a time for it. */
  readonly order: string
  readonly since: number
}

/**
 * The used share of limits by key, in epoch milliseconds: when a bucket is full again, or until when a
 * fact holds. Notes what is changed, so that a store can save it.
 */
export class Usage {
  readonly changed = new Map<string, number>()
  readonly ended = new Set<string>()
  readonly #until: ReadonlyMap<string, number>
  #reservations: readonly Reservation[]

  constructor(
    rows: readonly { readonly key: string; readonly until: number }[],
    reservations: readonly Reservation[],
  ) {
    this.#until = new Map(rows.map(({ key, until }) => [key, until]))
    this.#reservations = reservations
  }

  /** All that is reserved after what was changed. What `ended` names is not among it but where it began anew. */
  get reserved(): readonly Reservation[] {
    return this.#reservations
  }

  /** 0 for a key that has no row. */
  until(key: string): number {
    return this.changed.get(key) ?? this.#until.get(key) ?? 0
  }

  /** The same, put right if it is later than `latest`: then a clock was ahead when it was written. */
  untilAtMost(key: string, latest: number): number {
    const until = this.until(key)
    if (until <= latest) return until
    this.set(key, latest)
    return latest
  }

  set(key: string, until: number): void {
    this.changed.set(key, until)
  }

  /**
   * Those of a key. One that is older than `lifetime` ends; one from after `now` begins now, as a clock
   * was ahead.
   */
  reservations(key: string, now: number, lifetime: number): readonly Reservation[] {
    for (const one of this.#of(key)) {
      if (one.since > now) this.#start({ ...one, since: now })
      else if (one.since + lifetime <= now) this.end(one.order)
    }
    return this.#of(key)
  }

  /** Reserves keys for an order, in place of what it had reserved. */
  reserve(order: string, keys: readonly string[], since: number): void {
    this.end(order)
    for (const key of keys) this.#start({ key, order, since })
  }

  /** Ends all reservations of an order. */
  end(order: string): void {
    this.ended.add(order)
    this.#drop((one) => one.order === order)
  }

  #of(key: string): readonly Reservation[] {
    return this.#reservations.filter((one) => one.key === key)
  }

  #start(reservation: Reservation): void {
    const { key, order } = reservation
    this.#drop((one) => one.key === key && one.order === order)
    this.#reservations = [...this.#reservations, reservation]
  }

  #drop(isOver: (one: Reservation) => boolean): void {
    this.#reservations = this.#reservations.filter((one) => !isOver(one))
  }
}
