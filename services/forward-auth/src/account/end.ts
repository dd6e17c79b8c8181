import type { FastifyInstance } from 'fastify'
import type { Portal } from '../portals.ts'
import type { End } from '../store/store.ts'
import { findSessions } from './find.ts'

/** Sessions of one person that are looked for. */
const MAX_FOUND = 10_000

/** The sessions to end that somebody names: one by its ID, or all of a person. Those of other portals are none. */
export async function endsAt(
  app: FastifyInstance,
  portal: Portal,
  { session, person }: Readonly<Partial<Record<'session' | 'person', string | undefined>>>,
): Promise<readonly End[]> {
  if (person !== undefined) {
    const found = await findSessions(app, portal, { text: person }, MAX_FOUND)
    return [...new Set(found.map((one) => one.person))].map((digest) => ({ person: digest }))
  }
  const opened = session === undefined ? undefined : await app.sessions.records.open(session)
  return opened?.row.portal === portal.name ? [{ sid: opened.row.sid }] : []
}
