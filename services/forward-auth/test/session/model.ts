import type { AuthStore } from '../../src/store/auth-store.ts'
import type { SessionEvent, SessionRow } from '../../src/store/store.ts'

type Sessions =
  | 'beginSession'
  | 'updateSession'
  | 'findSession'
  | 'endSessions'
  | 'leaseSession'
  | 'touchSessions'

/** The sessions of a store, as both engines keep them, without a disk: so that thousands of orders can be tried. */
export function createModel() {
  const rows = new Map<string, SessionRow>()
  const events: SessionEvent[] = []
  const tell = (kind: SessionEvent['kind'], { sid, ends }: SessionRow) =>
    events.push({ kind, key: sid, until: ends })
  const sessions: Pick<AuthStore, Sessions> = {
    async beginSession(row) {
      rows.set(row.sid, row)
      return true
    },
    async updateSession(row) {
      if (rows.get(row.sid)?.rev !== row.rev - 1) return false
      rows.set(row.sid, { ...row, lease: 0 })
      tell('changed', row)
      return true
    },
    async findSession(sid) {
      return rows.get(sid)
    },
    async endSessions(which) {
      const isMeant = ({ sid, person }: SessionRow) =>
        'sid' in which ? which.sid === sid : 'person' in which && which.person === person
      const ended = [...rows.values()].filter(isMeant)
      for (const row of ended) {
        rows.delete(row.sid)
        tell('ended', row)
      }
      return ended
    },
    async leaseSession(sid, rev, before, until) {
      const row = rows.get(sid)
      if (row?.rev !== rev || row.lease !== before) return false
      rows.set(sid, { ...row, lease: until })
      return true
    },
    async touchSessions(seen) {
      for (const { sid, lastSeen, seenMac } of seen) {
        const row = rows.get(sid)
        if (row) rows.set(sid, { ...row, lastSeen, seenMac })
      }
    },
  }
  return { sessions, events }
}

export type Model = ReturnType<typeof createModel>
