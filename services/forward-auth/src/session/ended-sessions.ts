import { hash } from 'node:crypto'
import type { Row } from './revocation-file.ts'
import type { Session } from './session.ts'

/** Rows of one person before one row replaces them all. */
const MAX_EACH = 100
/** From this number of rows on, each person has one; a row takes about 300 bytes. */
const CROWDED = 200_000
/** Number of latest rows that are compared one by one instead of searching all rows. */
const RECENT = 32

/** The members of a session that its revocation depends on. */
export interface Revocable {
  readonly sid: string
  readonly iat: number
  readonly generation: number
}

/** A digest of the person, because the list need not say who signed out. */
export function personOf({ portal, profile }: Pick<Session, 'portal' | 'profile'>): string {
  const person = JSON.stringify([portal, profile.provider, profile.id])
  return hash('sha256', person, 'base64url').slice(0, 22)
}

/** The revoked sessions in memory. The number of rows per person is limited. */
export class EndedSessions {
  /** Number of rows that were learned so far. */
  learned = 0
  readonly #limits: { readonly each: number; readonly crowded: number }
  readonly #bySid = new Map<string, Row>()
  readonly #sidsOf = new Map<string, Set<string>>()
  readonly #rangeOf = new Map<string, Row>()
  /** The latest rows, each at its number modulo the length. */
  readonly #recent: Row[] = []

  constructor(limits = { each: MAX_EACH, crowded: CROWDED }) {
    this.#limits = limits
  }

  get size(): number {
    return this.#bySid.size + this.#rangeOf.size
  }

  /**
   * Whether a session is revoked.
   *
   * @param person - called only if it is needed
   * @param since - `learned` when the session was last found not to be revoked, so that only later
   * rows are compared; -1 to search all rows
   */
  has(session: Revocable, person: () => string, since: number): boolean {
    if (since < 0 || this.learned - since > RECENT) return this.#search(session, person)
    for (let n = since; n < this.learned; n++) {
      const row = this.#recent[n % RECENT]
      if (row && isOf(row, session, person)) return true
    }
    return false
  }

  #search(session: Revocable, person: () => string): boolean {
    if (this.#bySid.has(session.sid)) return true
    if (this.#rangeOf.size === 0) return false
    const range = this.#rangeOf.get(person())
    return range !== undefined && covers(range, session)
  }

  /** The generation of a new session of the person, above that of all revoked ranges. */
  nextGeneration(person: string): number {
    const range = this.#rangeOf.get(person)
    return range ? range.generation + 1 : 0
  }

  /** Adds a row unless it is known. */
  learn(row: Row): void {
    if (row.sid.startsWith('~')) this.#learnRange(row)
    else if (!this.#bySid.has(row.sid)) this.#learnSession(row)
  }

  #learnSession(row: Row): void {
    this.#bySid.set(row.sid, row)
    this.#count(row)
    if (row.person === '') return
    const sids = this.#sidsOf.get(row.person)
    if (sids) sids.add(row.sid)
    else this.#sidsOf.set(row.person, new Set([row.sid]))
  }

  #learnRange(row: Row): void {
    const { person } = row
    const before = this.#rangeOf.get(person)
    const after = before ? joined(row, before) : row
    if (before && isSame(before, after)) return
    this.#rangeOf.set(person, after)
    this.#count(after)
    for (const sid of [...(this.#sidsOf.get(person) ?? [])]) {
      const known = this.#bySid.get(sid)
      if (known && covers(after, { ...known, iat: known.first })) this.#remove(known)
    }
  }

  #count(row: Row): void {
    this.#recent[this.learned % RECENT] = row
    this.learned += 1
  }

  #remove({ sid, person }: Row): void {
    this.#bySid.delete(sid)
    const sids = this.#sidsOf.get(person)
    sids?.delete(sid)
    if (sids?.size === 0) this.#sidsOf.delete(person)
  }

  /**
   * Replaces the rows of a person by one range, if there are too many. Returns the range and the
   * session IDs that it replaces.
   */
  collapse(person: string): { readonly row: Row; readonly instead: readonly string[] } | undefined {
    const { each, crowded } = this.#limits
    const most = this.#bySid.size >= crowded ? 1 : each
    const instead = [...(this.#sidsOf.get(person) ?? [])]
    if (instead.length <= most) return undefined
    const rows = instead.map((sid) => this.#bySid.get(sid)).filter((row) => row !== undefined)
    const before = this.#rangeOf.get(person)
    const all = (before ? [before, ...rows] : rows).reduce(joined)
    const row = { ...all, sid: `~${person}`, person }
    this.#learnRange(row)
    return { row, instead }
  }

  /** Removes the rows whose sessions have all expired. */
  forget(hasExpired: (row: Row) => boolean): void {
    for (const row of this.#bySid.values()) if (hasExpired(row)) this.#remove(row)
    for (const [person, row] of this.#rangeOf) if (hasExpired(row)) this.#rangeOf.delete(person)
  }

  *rows(): Iterable<Row> {
    yield* this.#bySid.values()
    yield* this.#rangeOf.values()
  }
}

function isOf(row: Row, session: Revocable, person: () => string): boolean {
  if (row.sid === session.sid) return true
  return row.sid.startsWith('~') && row.person === person() && covers(row, session)
}

/** Compares the generation too, because a wrong clock may have made a range that ends in the future. */
function covers(range: Row, { iat, generation }: Pick<Revocable, 'iat' | 'generation'>): boolean {
  return range.first <= iat && iat <= range.last && generation <= range.generation
}

const COMPARED = ['first', 'last', 'generation', 'until', 'due'] as const

function isSame(row: Row, other: Row): boolean {
  return COMPARED.every((key) => row[key] === other[key])
}

function joined(row: Row, other: Row): Row {
  return {
    ...row,
    first: Math.min(row.first, other.first),
    last: Math.max(row.last, other.last),
    generation: Math.max(row.generation, other.generation),
    until: Math.max(row.until, other.until),
    due: Math.max(row.due, other.due),
  }
}
