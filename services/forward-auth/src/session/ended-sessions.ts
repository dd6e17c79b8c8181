import type { Row } from './revocation-file.ts'

/** Rows of one person before one row stands for them all. */
const MAX_EACH = 100
/** From so many rows on each person has one; some 300 bytes each. */
const CROWDED = 200_000
/** Rows that are sooner gone through than a session is looked for among all. */
const FEW = 32

/** What of a session its end goes by. */
export interface Ended {
  readonly sid: string
  readonly iat: number
  readonly generation: number
}

/** The ended sessions in memory. */
export interface EndedSessions {
  readonly size: number
  /** How many rows were learned so far. */
  readonly learned: number
  /**
   * Whether a session has ended. Where it was found not to have when `since` rows were learned, only
   * later rows are looked at; -1: all.
   */
  has(session: Ended, person: () => string, since: number): boolean
  /** The generation of a new session of the person, which has not ended with those before it. */
  nextGeneration(person: string): number
  /** Takes a row in, unless it is known. */
  learn(row: Row): void
  /**
   * One row for all of a person, if there are too many: the sessions in it end together. Gives it with
   * what it stands for.
   */
  collapse(person: string): { readonly row: Row; readonly instead: readonly string[] } | undefined
  forget(hasEnded: (row: Row) => boolean): void
  rows(): Iterable<Row>
}

/** Makes {@link EndedSessions}: no person fills the list. */
export function createEndedSessions(limits = { each: MAX_EACH, crowded: CROWDED }): EndedSessions {
  const bySid = new Map<string, Row>()
  const sidsOf = new Map<string, Set<string>>()
  const stretches = new Map<string, Row>()
  /** The last ones, each at its number. */
  const latest: Row[] = []
  let learned = 0

  function count(row: Row): void {
    latest[learned % FEW] = row
    learned += 1
  }

  function isAmongAll(session: Ended, person: () => string): boolean {
    if (bySid.has(session.sid)) return true
    if (stretches.size === 0) return false
    const stretch = stretches.get(person())
    return stretch !== undefined && covers(stretch, session)
  }

  function remove({ sid, person }: Row): void {
    bySid.delete(sid)
    const sids = sidsOf.get(person)
    sids?.delete(sid)
    if (sids?.size === 0) sidsOf.delete(person)
  }

  function learnStretch(row: Row): void {
    const { person } = row
    const before = stretches.get(person)
    const after = before ? joined(row, before) : row
    if (before && isSame(before, after)) return
    stretches.set(person, after)
    count(after)
    for (const sid of [...(sidsOf.get(person) ?? [])]) {
      const known = bySid.get(sid)
      if (known && covers(after, { ...known, iat: known.first })) remove(known)
    }
  }

  return {
    get size() {
      return bySid.size + stretches.size
    },
    get learned() {
      return learned
    },
    has(session, person, since) {
      if (since < 0 || learned - since > FEW) return isAmongAll(session, person)
      for (let n = since; n < learned; n++) {
        const row = latest[n % FEW]
        if (row && isOf(row, session, person)) return true
      }
      return false
    },
    nextGeneration(person) {
      const stretch = stretches.get(person)
      return stretch ? stretch.generation + 1 : 0
    },
    learn(row) {
      if (row.sid.startsWith('~')) return learnStretch(row)
      if (bySid.has(row.sid)) return
      bySid.set(row.sid, row)
      count(row)
      if (row.person === '') return
      const sids = sidsOf.get(row.person)
      if (sids) sids.add(row.sid)
      else sidsOf.set(row.person, new Set([row.sid]))
    },
    collapse(person) {
      const most = bySid.size >= limits.crowded ? 1 : limits.each
      const instead = [...(sidsOf.get(person) ?? [])]
      if (instead.length <= most) return undefined
      const rows = instead.map((sid) => bySid.get(sid)).filter((row) => row !== undefined)
      const before = stretches.get(person)
      const all = (before ? [before, ...rows] : rows).reduce(joined)
      const row = { ...all, sid: `~${person}`, person }
      learnStretch(row)
      return { row, instead }
    },
    forget(hasEnded) {
      for (const row of bySid.values()) if (hasEnded(row)) remove(row)
      for (const [person, row] of stretches) if (hasEnded(row)) stretches.delete(person)
    },
    *rows() {
      yield* bySid.values()
      yield* stretches.values()
    },
  }
}

function isOf(row: Row, session: Ended, person: () => string): boolean {
  if (row.sid === session.sid) return true
  return row.sid.startsWith('~') && row.person === person() && covers(row, session)
}

/** By the generation too, as the clock was wrong if a stretch reaches into the future. */
function covers(stretch: Row, { iat, generation }: Pick<Ended, 'iat' | 'generation'>): boolean {
  return stretch.first <= iat && iat <= stretch.last && generation <= stretch.generation
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
