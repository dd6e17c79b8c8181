import { fromClaims } from '@gatehouse/profile'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { EndedBy, SessionRow } from '../store/store.ts'
import { openRow } from './session.ts'

/** Records sessions that ended early in the audit trail, and by whom. */
export function recordEnds(
  app: FastifyInstance,
  rows: readonly SessionRow[],
  endedBy: EndedBy,
  request?: FastifyRequest,
): void {
  for (const row of rows) {
    const said = openRow(row, app.keys.record)
    if (!said) continue
    const { host } = new URL(said.issuer)
    const profile = fromClaims(said.provider, said.claims)
    app.auditTrail.record(request, {
      event: 'session-ended',
      portal: row.portal,
      profile,
      host,
      endedBy,
    })
  }
}
