import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Ender } from '../audit/audit.ts'
import type { Portal } from '../portal/portals.ts'
import { endSessions } from '../session/ends.ts'
import { consentsTo } from '../session/session.ts'
import type { End } from '../store/store.ts'
import { findGrants, findSessions, type PeopleFilter } from './find.ts'

/** The sessions that a search for one person reads. */
const MAX_FOUND = 10_000

type EndTarget = Readonly<Partial<Record<'session' | 'person' | 'client', string | undefined>>>

/**
 * The sessions to end that somebody names: one by its ID, all of a person, or what a client has, of a person or everybody.
 * That of an agent stands for all that its client has of the person. Those of other portals are none.
 */
export async function endsAt(
  app: FastifyInstance,
  portal: Portal,
  { session, person, client }: EndTarget,
): Promise<readonly End[]> {
  const grantsTo = async (clientId: string, people: PeopleFilter): Promise<readonly End[]> =>
    (await findGrants(app, portal, clientId, people)).map(({ id: sid }) => ({ sid }))
  if (client !== undefined)
    return grantsTo(client, person === undefined ? 'everybody' : { text: person })
  if (person !== undefined) {
    const sessions = await findSessions(app, portal, { text: person }, MAX_FOUND)
    return [...new Set(sessions.map(({ person }) => person))].map((digest) => ({ person: digest }))
  }
  const opened = session === undefined ? undefined : await app.sessions.records.open(session)
  if (opened?.row.portal !== portal.name) return []
  const { row, contents } = opened
  if (!contents.agent) return [{ sid: row.sid }]
  return grantsTo(contents.agent.clientId, { digest: row.person })
}

/** Ends what a program or operator names: whoever allows a client again is asked. Gives how many there were. */
export async function endTarget(
  app: FastifyInstance,
  portal: Portal,
  target: EndTarget,
  ender: Ender,
  request?: FastifyRequest,
): Promise<number> {
  const { client, person } = target
  if (client !== undefined && person === undefined)
    await app.authStore.withdrawConsents(undefined, consentsTo(client))
  return endSessions(app, await endsAt(app, portal, target), ender, request)
}
