import type { Row } from './revocation-file.ts'

/** Rows of one person before one row stands for them all. */
const MAX_EACH = 100
/** From so many rows on each person has one; some 300 bytes each. */
const CROWDED = 200_000

/** What of a session its end goes by. */
export interface Ended {
  readonly sid: string
  readonly person: string
  readonly iat: number
  readonly generation: number
}

/** The ended sessions in memory. */
export interface EndedSessions {
  readonly size: number
  has(session: Omit<Ended, 'person'>, person: () => string): boolean
  /** The generation of a new session of the person, which has not ended with those before it. */
  nextGeneration(person: string): number
  /** Takes a row in; false if it was known. */
  learn(row: Row): boolean
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

  function remove({ sid, person }: Row): void {
    bySid.delete(sid)
    const sids = sidsOf.get(person)
    sids?.delete(sid)
    if (sids?.size === 0) sidsOf.delete(person)
  }

  function learnStretch(row: Row): boolean {
    const { person } = row
    const before = stretches.get(person)
    const after = before ? joined(row, before) : row
    if (before && isSame(before, after)) return false
    stretches.set(person, after)
    for (const sid of [...(sidsOf.get(person) ?? [])]) {
      const known = bySid.get(sid)
      if (known && covers(after, { ...known, iat: known.first })) remove(known)
    }
    return true
  }

  return {
    get size() {
      return bySid.size + stretches.size
    },
    has(session, person) {
      if (bySid.has(session.sid)) return true
      if (stretches.size === 0) return false
      const stretch = stretches.get(person())
      return stretch !== undefined && covers(stretch, session)
    },
    nextGeneration(person) {
      const stretch = stretches.get(person)
      return stretch ? stretch.generation + 1 : 0
    },
    learn(row) {
      if (row.sid.startsWith('~')) return learnStretch(row)
      if (bySid.has(row.sid)) return false
      bySid.set(row.sid, row)
      if (row.person === '') return true
      const sids = sidsOf.get(row.person)
      if (sids) sids.add(row.sid)
      else sidsOf.set(row.person, new Set([row.sid]))
      return true
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
