import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Ender } from '../audit/audit.ts'
import type { End, SessionRow } from '../store/store.ts'
import { type Consent, consentsTo, openRow, profileOf, type Sealed } from './session.ts'

/** Ends sessions or agents, and records it. Gives how many there were, without the agents that end with their session. */
export async function endSessions(
  app: FastifyInstance,
  ends: readonly End[],
  ender: Ender,
  request?: FastifyRequest,
): Promise<number> {
  let count = 0
  for (const which of ends) {
    const rows = await app.sessions.records.end(which)
    const named = rows.filter(
      ({ sid, parent }) => parent === null || ('sid' in which && which.sid === sid),
    )
    const said = named.map((row) => recordEnd(app, row, ender, request))
    count += named.length
    await forgetConsents(app, which, rows[0]?.person, said[0]?.agent)
  }
  return count
}

/** Whoever ends an agent, or all that a person has, is asked again before an agent of that client comes back. */
async function forgetConsents(
  { authStore }: FastifyInstance,
  which: End,
  person: string | undefined,
  agent: Consent | undefined,
): Promise<void> {
  if (person !== undefined && agent)
    await authStore.withdrawConsents(person, consentsTo(agent.clientId))
  if ('person' in which && which.except === undefined)
    await authStore.withdrawConsents(which.person)
}

/** Records a session that ended early in the audit trail, and by whom. Gives what it said. */
export function recordEnd(
  app: FastifyInstance,
  row: SessionRow,
  ender: Ender,
  request?: FastifyRequest,
): Sealed | undefined {
  const said = openRow(row, app.keys.record)
  if (!said) return undefined
  const { host } = new URL(said.issuer)
  const client = said.agent?.clientId
  const of = { portal: row.portal, profile: profileOf(said), host, ender, client }
  app.auditTrail.record(request, { event: 'session-ended', ...of })
  return said
}
