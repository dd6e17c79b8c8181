import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Ender } from '../audit/audit.ts'
import type { End, SessionRow } from '../store/store.ts'
import { consentsTo, openRow, profileOf, type SessionContents } from './session.ts'

/** Ends sessions or agents, and records it. Gives how many there were, without the agents that end with their session. */
export async function endSessions(
  app: FastifyInstance,
  ends: readonly End[],
  ender: Ender,
  request?: FastifyRequest,
): Promise<number> {
  let count = 0
  for (const target of ends) {
    const rows = await app.sessions.records.end(target)
    const directRows = rows.filter(
      ({ sid, parent }) => parent === null || ('sid' in target && target.sid === sid),
    )
    const [contents] = directRows.map((row) => recordEnd(app, row, ender, request))
    count += directRows.length
    // The person is asked again before an agent of that client comes back.
    const [{ person } = {}] = rows
    if (person !== undefined && contents?.agent)
      await app.authStore.withdrawConsents(person, consentsTo(contents.agent.clientId))
    if ('person' in target && target.except === undefined)
      await app.authStore.withdrawConsents(target.person)
  }
  return count
}

/** Records a session that ended early in the audit trail, and by whom. Gives its contents. */
export function recordEnd(
  app: FastifyInstance,
  row: SessionRow,
  ender: Ender,
  request?: FastifyRequest,
): SessionContents | undefined {
  const contents = openRow(row, app.keys.record)
  if (!contents) return undefined
  app.auditTrail.record(request, {
    event: 'session-ended',
    portal: row.portal,
    profile: profileOf(contents),
    host: new URL(contents.issuer).host,
    ender,
    client: contents.agent?.clientId,
  })
  return contents
}
