import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { End, EndedBy, SessionRow } from '../store/store.ts'
import { openRow, profileOf } from './session.ts'

/** Ends sessions, and records it. Gives how many there were. */
export async function endSessions(
  app: FastifyInstance,
  ends: readonly End[],
  endedBy: EndedBy,
  request?: FastifyRequest,
): Promise<number> {
  let count = 0
  for (const which of ends) {
    const rows = await app.sessions.records.end(which)
    for (const row of rows) recordEnd(app, row, endedBy, request)
    count += rows.length
  }
  return count
}

/** Records a session that ended early in the audit trail, and by whom. */
export function recordEnd(
  app: FastifyInstance,
  row: SessionRow,
  endedBy: EndedBy,
  request?: FastifyRequest,
): void {
  const said = openRow(row, app.keys.record)
  if (!said) return
  const { host } = new URL(said.issuer)
  const of = { portal: row.portal, profile: profileOf(said), host, endedBy }
  app.auditTrail.record(request, { event: 'session-ended', ...of })
}
