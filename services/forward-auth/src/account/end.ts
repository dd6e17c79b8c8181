import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Ender } from '../audit/audit.ts'
import type { Portal } from '../portal/portals.ts'
import { endSessions } from '../session/ends.ts'
import { consentsTo } from '../session/session.ts'
import type { End } from '../store/store.ts'
import { findGrants, findSessions } from './find.ts'

/** Sessions of one person that are looked for. */
const MAX_FOUND = 10_000

/** What somebody names to end. */
type Named = Readonly<Partial<Record<'session' | 'person' | 'client', string | undefined>>>

/**
 * The sessions to end that somebody names: one by its ID, all of a person, or what a client has, of a person or everybody.
 * That of an agent stands for all that its client has of the person. Those of other portals are none.
 */
export async function endsAt(
  app: FastifyInstance,
  portal: Portal,
  { session, person, client }: Named,
): Promise<readonly End[]> {
  if (client !== undefined) {
    const whose = person === undefined ? 'everybody' : { text: person }
    const found = await findGrants(app, portal, client, whose)
    return found.map(({ id: sid }) => ({ sid }))
  }
  if (person !== undefined) {
    const found = await findSessions(app, portal, { text: person }, MAX_FOUND)
    return [...new Set(found.map((one) => one.person))].map((digest) => ({ person: digest }))
  }
  const opened = session === undefined ? undefined : await app.sessions.records.open(session)
  if (opened?.row.portal !== portal.name) return []
  const { row, contents } = opened
  if (!contents.agent) return [{ sid: row.sid }]
  const whose = { digest: row.person }
  const found = await findGrants(app, portal, contents.agent.clientId, whose)
  return found.map(({ id: sid }) => ({ sid }))
}

/** Ends what a program or operator names: whoever allows a client again is asked. Gives how many there were. */
export async function endNamed(
  app: FastifyInstance,
  portal: Portal,
  named: Named,
  ender: Ender,
  request?: FastifyRequest,
): Promise<number> {
  const { client, person } = named
  if (client !== undefined && person === undefined)
    await app.authStore.withdrawConsents(undefined, consentsTo(client))
  return endSessions(app, await endsAt(app, portal, named), ender, request)
}
