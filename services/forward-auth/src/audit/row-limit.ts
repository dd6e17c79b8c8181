import type { Clock } from '@gatehouse/service-kit/clock'
import type { AuditRow } from '../store/store.ts'

/** Kinds of events with rows of their own in a time, of everybody. */
const MAX_ALL = 10_000
/** Repeats of a kind that have a row each, where a person saw the answer. */
const MAX_PAGES = 10

/** Members that a row for several does not tell. */
const PLACES = ['host', 'clientAddress', 'method', 'path', 'client', 'tool'] as const
const NAMES = ['provider', 'name', 'username', 'email', 'groups'] as const

interface RowLimitOptions {
  readonly clock: Clock
  /** The length of the period, in ms. It begins with the first event. */
  readonly time: number
  /** The number of kinds of an event with their own rows in that period, for each person, program, or all unknown ones. */
  readonly most: number
  /** Called at its end with a row for each kind that was repeated, which counts the repeats. */
  readonly repeated?: (row: AuditRow) => void
}

type CountedRow = { row: AuditRow; count: number }

/**
 * Limits the rows of what is repeated: one in a time for the same person or program, portal, host, code, refusing
 * part, client and tool. A client that invents hosts, tools or addresses gets one row for all further ones.
 */
export class RowLimit {
  readonly #options: RowLimitOptions
  #timer: { cancel(): void } | undefined
  /** The last row of each kind, and how often it was repeated. */
  #seen = new Map<string, CountedRow>()
  /** The same of what programs were let do, by host and tool. */
  #passed = new WeakMap<object, Map<string | undefined, CountedRow>>()
  readonly #kindsOf = new Map<string, number>()

  constructor(options: RowLimitOptions) {
    this.#options = options
  }

  /** Counts what a program was let do if it has a row of its own; false if not. */
  repeats(call: Partial<AuditRow>, program: object): boolean {
    const seen = this.#passed.get(program)?.get(placeOf(call))
    if (seen) count(seen, { ...seen.row, ...call })
    return seen !== undefined
  }

  /** The row to write: this one, or one that stands for several. Undefined if it was written before. */
  take(row: AuditRow, isPage = false, program?: object): AuditRow | undefined {
    const { clock, time, most } = this.#options
    this.#timer ??= clock.setTimer(() => this.end(), time)
    const key = keyOf(row)
    const seen = this.#seen.get(key)
    if (seen)
      return this.#add(row, key, program) ?? (isPage && seen.count < MAX_PAGES ? row : undefined)
    const { event, person } = row
    // Refused calls take no room from those that pass.
    const budget = `${event} ${person}`
    const kinds = this.#kindsOf.get(budget) ?? 0
    const hasRoom = this.#seen.size < MAX_ALL
    if (hasRoom && kinds < most) {
      this.#kindsOf.set(budget, kinds + 1)
      return this.#add(row, key, program)
    }
    const several = Object.fromEntries(PLACES.map((name) => [name, row[name] && '*']))
    const ofPerson = { ...row, ...several }
    if (hasRoom) return this.#add(ofPerson)
    const nobody = Object.fromEntries(NAMES.map((name) => [name, undefined]))
    return this.#add({ ...ofPerson, ...nobody, person: '*' })
  }

  /** Ends the time before it is over. */
  end(): void {
    const { clock, repeated } = this.#options
    const seen = this.#seen
    this.#timer?.cancel()
    this.#timer = undefined
    this.#seen = new Map()
    this.#passed = new WeakMap()
    this.#kindsOf.clear()
    const time = new Date(clock.now()).toISOString()
    for (const { row, count } of seen.values()) if (count > 0) repeated?.({ ...row, time, count })
  }

  #add(row: AuditRow, key = keyOf(row), program?: object): AuditRow | undefined {
    const seen = this.#seen.get(key) ?? { row, count: -1 }
    this.#seen.set(key, seen)
    if (program)
      this.#passed.set(program, (this.#passed.get(program) ?? new Map()).set(placeOf(row), seen))
    return count(seen, row) === 0 ? row : undefined
  }
}

function count(seen: CountedRow, row: AuditRow): number {
  const { path, method } = seen.row
  const isAlike = row.path === path && row.method === method
  seen.row = isAlike ? row : { ...row, method: '*', path: row.path && '*' }
  return ++seen.count
}

/** No host has a space. */
const placeOf = ({ host, tool }: Partial<AuditRow>) =>
  tool === undefined ? host : `${host} ${tool}`

function keyOf(row: AuditRow): string {
  const { event, portal, person, clientAddress, host, code, refusedBy, client, tool } = row
  const who = person ?? `at ${clientAddress}`
  return JSON.stringify([event, portal, who, host, code, refusedBy, client, tool])
}
