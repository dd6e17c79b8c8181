import type { Engine } from '@gatehouse/store'
import { MAX_REPORTS, notServed, type ProbeRecord, type Probes } from './port/probes.ts'
import { DAY, MAX_ROWS, repeat, TEXTS } from './schema/sql.ts'
import { PROBES } from './schema/tables.ts'

const MAX_PROBES = 10_000
const PLACE = ['name', 'host', 'address', 'port', 'keyType', 'reporter']

// The oldest rows stay: they know since when. What callers add comes behind what was looked at.
const DELETE_EXCESS = `
  DELETE FROM probes WHERE id IN (
    SELECT id FROM probes ORDER BY (reporter <> ''), id LIMIT 1000000 OFFSET ${MAX_PROBES})`
const DELETE_REPORTS = `
  DELETE FROM probes WHERE id IN (
    SELECT id FROM probes WHERE name = $1 AND reporter <> ''
    ORDER BY seen_at DESC LIMIT 1000000 OFFSET ${MAX_REPORTS})`
// What a clock that was ahead wrote goes as well.
const DELETE_OLD = [
  `seen_at < $1::bigint - ${7 * DAY} OR seen_at > $1::bigint + ${DAY}`,
  `seen_at < $1 AND reporter = '' AND state <> 'unreachable'`,
].map(
  (which) =>
    `DELETE FROM probes WHERE id IN (SELECT id FROM probes WHERE ${which} LIMIT ${MAX_ROWS})`,
)
const NOT_SERVED = `
  SELECT name, port, since FROM probes WHERE ${notServed('$1')} ORDER BY since LIMIT $2`
const COUNT = 'SELECT state, count(*) AS total FROM probes GROUP BY state'

export function probesOn(db: Engine): Probes {
  const [deleteUnseen = '', deleteLeft = ''] = DELETE_OLD
  return {
    listProbes: async (names) =>
      (await PROBES.list(
        db,
        `WHERE name IN (${TEXTS}) ORDER BY name, id`,
        JSON.stringify(names),
      )) as readonly ProbeRecord[],
    saveProbe: (probe) =>
      db.transaction(
        async (tx) => {
          await PROBES.add(tx, probe, PROBES.replacing(PLACE, probe))
          if (probe.reporter !== '') await tx.run(DELETE_REPORTS, probe.name)
          await tx.run(DELETE_EXCESS)
        },
        { durable: false },
      ),
    async countProbes() {
      const rows = await db.reports.all<{ state: string; total: number }>(COUNT)
      return Object.fromEntries(rows.map(({ state, total }) => [state, total]))
    },
    listNotServed: (now, limit) => db.reports.all(NOT_SERVED, now, limit),
    async pruneProbes(now, latest) {
      await repeat(db, deleteUnseen, now)
      await repeat(db, deleteLeft, latest)
    },
  }
}
