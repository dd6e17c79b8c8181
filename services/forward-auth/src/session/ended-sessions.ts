import { hash } from 'node:crypto'
import type { Profile } from '@gatehouse/profile'
import type { Revocation } from '../store/store.ts'
import type { Session } from './session.ts'

const MAX_EACH = 100
/** The number of rows from which on each person has one; a row takes about 300 bytes. */
const CROWDED = 200_000

/** A digest of the person, because the list need not say who signed out. */
export function personOf(portal: string, { provider, id }: Profile): string {
  return hash('sha256', JSON.stringify([portal, provider, id]), 'base64url').slice(0, 22)
}

/** The ID of a row for all sessions of a person in a range of time. */
export function rangeId(person: string): string {
  return `~${person}`
}

/** The revoked sessions in memory. The number of rows per person is limited. */
export class EndedSessions {
  readonly #bySid = new Map<string, Revocation>()
  readonly #sidsOf = new Map<string, Set<string>>()
  readonly #rangeOf = new Map<string, Revocation>()

  get size(): number {
    return this.#bySid.size + this.#rangeOf.size
  }

  has(session: Pick<Session, 'sid' | 'person' | 'iat' | 'generation'>): boolean {
    if (this.#bySid.has(session.sid)) return true
    const range = this.#rangeOf.get(session.person)
    return range !== undefined && covers(range, session)
  }

  /**
   * Whether a session of a person has ended, of which only a digest is known. With a range of ended
   * sessions that cannot be told, so that it has.
   */
  hasAny(person: string, isMeant: (sid: string) => boolean): boolean {
    return this.#rangeOf.has(person) || this.#rowsOf(person).some(({ sid }) => isMeant(sid))
  }

  /** The generation of a new session of the person, above that of all revoked ranges. */
  nextGeneration(person: string): number {
    const range = this.#rangeOf.get(person)
    return range ? range.generation + 1 : 0
  }

  learn(row: Revocation): void {
    if (row.sid.startsWith('~')) this.#learnRange(row)
    else if (!this.#bySid.has(row.sid)) this.#learnSession(row)
  }

  #learnSession(row: Revocation): void {
    this.#bySid.set(row.sid, row)
    const sids = this.#sidsOf.get(row.person)
    if (sids) sids.add(row.sid)
    else this.#sidsOf.set(row.person, new Set([row.sid]))
  }

  #learnRange(row: Revocation): void {
    const before = this.#rangeOf.get(row.person)
    const range = before ? joined(row, before) : row
    this.#rangeOf.set(row.person, range)
    for (const known of this.#rowsOf(row.person))
      if (covers(range, { ...known, iat: known.first })) this.#remove(known)
  }

  #rowsOf(person: string): Revocation[] {
    return [...(this.#sidsOf.get(person) ?? [])].flatMap((sid) => this.#bySid.get(sid) ?? [])
  }

  #remove({ sid, person }: Revocation): void {
    this.#bySid.delete(sid)
    const sids = this.#sidsOf.get(person)
    sids?.delete(sid)
    if (sids?.size === 0) this.#sidsOf.delete(person)
  }

  /** Replaces the rows of a person by one range, if there are too many. Returns both. */
  collapse(
    person: string,
  ): { readonly range: Revocation; readonly instead: readonly Revocation[] } | undefined {
    const instead = this.#rowsOf(person)
    if (instead.length <= (this.#bySid.size >= CROWDED ? 1 : MAX_EACH)) return undefined
    const before = this.#rangeOf.get(person) ?? []
    const range = { ...instead.concat(before).reduce(joined), sid: rangeId(person) }
    this.#learnRange(range)
    return { range, instead }
  }

  forget(hasExpired: (row: Revocation) => boolean): void {
    for (const row of this.#bySid.values()) if (hasExpired(row)) this.#remove(row)
    for (const [person, row] of this.#rangeOf) if (hasExpired(row)) this.#rangeOf.delete(person)
  }

  *rows(): Iterable<Revocation> {
    yield* this.#bySid.values()
    yield* this.#rangeOf.values()
  }
}

/** Compares the generation too, because a wrong clock may have made a range that ends in the future. */
function covers(
  range: Revocation,
  { iat, generation }: Pick<Session, 'iat' | 'generation'>,
): boolean {
  return range.first <= iat && iat <= range.last && generation <= range.generation
}

function joined(row: Revocation, other: Revocation): Revocation {
  return {
    ...row,
    first: Math.min(row.first, other.first),
    last: Math.max(row.last, other.last),
    generation: Math.max(row.generation, other.generation),
    until: Math.max(row.until, other.until),
    due: Math.max(row.due, other.due),
  }
}
