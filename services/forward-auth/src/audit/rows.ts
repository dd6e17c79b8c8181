/** What the audit trail records. */
export const AUDIT_EVENTS = [
  'sign-in',
  'sign-in-refused',
  'sign-in-failed',
  'sign-out',
  'session-ended',
  'access-refused',
] as const

export type AuditEvent = (typeof AUDIT_EVENTS)[number]

/** A row of the audit trail. `*` stands for several persons, hosts or addresses. */
export interface AuditRow {
  /** ISO 8601, in UTC. */
  readonly time: string
  readonly event: AuditEvent
  readonly portal: string
  readonly provider?: string | undefined
  /** `<provider>:<identifier at the provider>`; absent if it is not known. */
  readonly person?: string | undefined
  readonly name?: string | undefined
  /** Host of the app that the person wanted to use, or of the sign-in pages. */
  readonly host?: string | undefined
  readonly clientAddress?: string | undefined
  readonly requestId: string
  /** Code of the error that refused or failed. */
  readonly code?: string | undefined
  /** What refused a person, such as `allow` or `policy admin`, and the part that did not hold. */
  readonly refusedBy?: string | undefined
  readonly clause?: string | undefined
}

const HOUR = 3_600_000
/** Kinds of refusals with rows of their own per hour, of one person or of all who are not known. */
const MAX_EACH = 100
const MAX_ALL = 10_000

/**
 * Limits the rows that people cause by repeating what is refused: one per hour for the same person,
 * portal, host and code. Who invents hosts or addresses gets one row for all further ones.
 */
export class RefusalLimit {
  #hour = Number.NaN
  readonly #seen = new Set<string>()
  readonly #countOf = new Map<string, number>()

  /** The row to write: this one, or one that stands for several. Undefined if it was written before. */
  take(row: AuditRow): AuditRow | undefined {
    this.#startHour(Math.floor(Date.parse(row.time) / HOUR))
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

  #startHour(hour: number): void {
    if (hour === this.#hour) return
    this.#hour = hour
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
