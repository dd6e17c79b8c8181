import type { AuditRow } from '../store/store.ts'

/** Kinds of events with rows of their own in a time, of one person or of all who are not known. */
const MAX_EACH = 100
const MAX_ALL = 10_000

/**
 * Limits the rows of what is repeated: one in a time for the same person or program, portal, host and code.
 * A client that invents hosts or addresses gets one row for all further ones.
 */
export class RowLimit {
  readonly #time: number
  #now = Number.NaN
  readonly #seen = new Set<string>()
  readonly #countOf = new Map<string, number>()

  /** @param time - in ms */
  constructor(time: number) {
    this.#time = time
  }

  /** The row to write: this one, or one that stands for several. Undefined if it was written before. */
  take(row: AuditRow): AuditRow | undefined {
    this.#start(Math.floor(Date.parse(row.time) / this.#time))
    const { person = '' } = row
    const count = this.#countOf.get(person) ?? 0
    const hasRoom = this.#seen.size < MAX_ALL
    if (this.#seen.has(keyOf(row))) return undefined
    if (hasRoom && count < MAX_EACH) {
      this.#countOf.set(person, count + 1)
      return this.#add(row)
    }
    const ofPerson = { ...row, host: '*', clientAddress: '*' }
    if (hasRoom) return this.#add(ofPerson)
    return this.#add({ ...ofPerson, provider: undefined, person: '*', name: undefined })
  }

  #start(now: number): void {
    if (now === this.#now) return
    this.#now = now
    this.#seen.clear()
    this.#countOf.clear()
  }

  #add(row: AuditRow): AuditRow | undefined {
    const key = keyOf(row)
    if (this.#seen.has(key)) return undefined
    this.#seen.add(key)
    return row
  }
}

function keyOf({ event, portal, person, clientAddress, host, code }: AuditRow): string {
  return JSON.stringify([event, portal, person ?? `at ${clientAddress}`, host, code])
}
