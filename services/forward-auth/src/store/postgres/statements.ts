import type { Turn } from '@gatehouse/postgres'
import type { CompletedLogin, RevocationChange } from '../store.ts'

/** Rows that one statement removes, so that none takes long. */
const MAX_REMOVED = 100_000

/** Reads the revocations of transactions since one. */
export const READ = `
  SELECT sid, person, first, last, generation, until, due FROM revoked WHERE xid >= $1::xid8`

/** Removes what has expired by the clock and by the running time. */
export const PRUNE: readonly string[] = [
  `DELETE FROM revoked WHERE sid IN (
    SELECT sid FROM revoked WHERE until <= $1::bigint AND due <= $2::bigint LIMIT ${MAX_REMOVED})`,
  `DELETE FROM completed WHERE login IN (
    SELECT login FROM completed WHERE until <= $1::bigint AND due <= $2::bigint LIMIT ${MAX_REMOVED})`,
]

/** Of two rows of one ID, the wider one remains. Its transaction is new, so that others read it. */
const ADD = `
  INSERT INTO revoked AS known (sid, person, first, last, generation, until, due)
  SELECT sid, max(person), min(first), max(last), max(generation), max(until), max(due)
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[]) AS added (sid, person, first, last, generation, until, due)
  GROUP BY sid ORDER BY sid
  ON CONFLICT (sid) DO UPDATE SET
    first = least(known.first, excluded.first),
    last = greatest(known.last, excluded.last),
    generation = greatest(known.generation, excluded.generation),
    until = greatest(known.until, excluded.until),
    due = greatest(known.due, excluded.due),
    xid = excluded.xid`

/** The writes of revocations, of which the other instances are told. */
export function revocations(channel: string): Turn<RevocationChange, void> {
  return {
    statements(changes) {
      const remove = changes.flatMap((change) => change.remove)
      const add = changes.flatMap((change) => change.add)
      const column = <K extends keyof (typeof add)[number]>(key: K) => add.map((row) => row[key])
      const columns = [
        ...[column('sid'), column('person'), column('first'), column('last')],
        ...[column('generation'), column('until'), column('due')],
      ]
      return [
        { sql: 'DELETE FROM revoked WHERE sid = ANY ($1::text[])', params: [remove] },
        { sql: ADD, params: columns },
        // Without new rows, nobody is told.
        {
          sql: 'SELECT pg_notify($1, $2) WHERE $3::boolean',
          params: [channel, '', add.length > 0],
        },
      ]
    },
    settle: (_rows, changes) => changes.map(() => undefined),
  }
}

const COMPLETE = `
  INSERT INTO completed (login, until, due)
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) ORDER BY 1
  ON CONFLICT DO NOTHING RETURNING login`

/** The writes of logins: of each, whether it had not completed before. */
export const completions: Turn<CompletedLogin, boolean> = {
  statements: (items) => [
    {
      sql: COMPLETE,
      params: [
        items.map(({ login }) => login),
        items.map(({ until }) => until),
        items.map(({ due }) => due),
      ],
      // Known even if the connection breaks after the commit.
      keep: true,
    },
  ],
  settle([rows = []], items) {
    const added = new Set(rows.map(({ login }) => login))
    return items.map(({ login }) => added.delete(login))
  },
}
