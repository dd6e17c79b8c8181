import type { FastifyInstance } from 'fastify'
import type { ShownAgent, ShownSession } from '../pages/sessions.ts'
import type { Portal } from '../portals.ts'
import { mailOf, openRow, personOf, profileOf } from '../session/session.ts'

/** A session that was found, with what it says. */
export interface FoundSession extends ShownSession {
  /** The digest of the person. */
  readonly person: string
  readonly profile: NonNullable<ShownSession['profile']>
}

/** People of a portal: everybody, one person by their digest, or whoever a text may mean. */
export type Whose = 'everybody' | { readonly digest: string } | { readonly text: string }

/** The sessions of people, the newest first. */
export async function findSessions(
  app: FastifyInstance,
  portal: Portal,
  whose: Whose,
  limit: number,
): Promise<readonly FoundSession[]> {
  const rows = await findRows(app, portal, whose, limit, false)
  return rows.map(({ row, said }) => {
    const { sid: id, person, begun, lastSeen, ends, hosts } = row
    const of = { ...said.browser, profile: profileOf(said) }
    return { id, person, isCurrent: false, begun, lastSeen, ends, hosts, ...of }
  })
}

/** The agents of people, the newest first. */
export async function findAgents(
  app: FastifyInstance,
  portal: Portal,
  whose: Whose,
  limit: number,
): Promise<readonly ShownAgent[]> {
  const rows = await findRows(app, portal, whose, limit, true)
  return rows.flatMap(({ row, said }) => {
    if (!said.agent) return []
    const { clientId, clientName: name, resource, scopes } = said.agent
    const { sid: id, begun, lastSeen: lastCall, ends } = row
    const of = { clientHost: URL.parse(clientId)?.host, name, resource, scopes }
    return [{ id, begun, lastCall, ends, ...of, profile: profileOf(said) }]
  })
}

/** The rows of people that have not ended, each once, with what they say. */
async function findRows(
  { authStore, keys, clock }: FastifyInstance,
  portal: Portal,
  whose: Whose,
  limit: number,
  agents: boolean,
) {
  const asked = selections(portal, whose).map((one) =>
    authStore.listSessions({ ...one, agents }, limit),
  )
  const rows = new Map((await Promise.all(asked)).flat().map((row) => [row.sid, row]))
  return [...rows.values()]
    .sort((one, other) => other.begun - one.begun)
    .slice(0, limit)
    .filter(({ ends }) => ends > clock.now())
    .flatMap((row) => {
      const said = openRow(row, keys.record)
      return said ? [{ row, said }] : []
    })
}

/** What to list: a text may stand for an address, an identifier, or one of a provider. */
function selections({ name: portal, providers }: Portal, whose: Whose) {
  if (whose === 'everybody') return [{ portal }]
  if ('digest' in whose) return [{ person: whose.digest }]
  const { text } = whose
  const people = [...providers.keys()].flatMap((provider) => {
    const id = text.startsWith(`${provider}:`) ? text.slice(provider.length + 1) : text
    return [...new Set([id, text])].map((each) => personOf(portal, { provider, id: each }))
  })
  return [...people.map((person) => ({ person })), { mail: mailOf(portal, text) }]
}
