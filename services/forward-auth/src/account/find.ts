import type { FastifyInstance } from 'fastify'
import type { ShownAgent, ShownSession } from '../pages/sessions.ts'
import type { Portal } from '../portal/portals.ts'
import { mailOf, openRow, personOf, profileOf } from '../session/session.ts'

/** A session of the store, opened. */
export interface FoundSession extends ShownSession {
  /** The digest of the person. */
  readonly person: string
  /** Whether it is for the agents of the person alone. */
  readonly isOffline: boolean
  readonly profile: NonNullable<ShownSession['profile']>
}

/** The people of a portal: everybody, one person by their digest, or all that match a text. */
export type PeopleFilter = 'everybody' | { readonly digest: string } | { readonly text: string }

/** The sessions of people, the newest first. */
export async function findSessions(
  app: FastifyInstance,
  portal: Portal,
  people: PeopleFilter,
  limit: number,
): Promise<readonly FoundSession[]> {
  return (await findRows(app, portal, people, limit, false)).map(foundSessionOf)
}

function foundSessionOf({ row, contents }: OpenedListing): FoundSession {
  const { sid: id, person, begun, lastSeen, ends, hosts } = row
  const profile = profileOf(contents)
  const isOffline = contents.isOffline === true
  return {
    ...{ id, person, isCurrent: false, begun, lastSeen, ends, hosts, profile, isOffline },
    ...contents.browser,
  }
}

/** The agents of people, the newest first: what one client has of one person is one. */
export async function findAgents(
  app: FastifyInstance,
  portal: Portal,
  people: PeopleFilter,
  limit: number,
): Promise<readonly ShownAgent[]> {
  const rows = await findRows(app, portal, people, limit, true)
  const keyOf = ({ row, contents }: OpenedListing) => `${row.person} ${contents.agent?.clientId}`
  return [...Map.groupBy(rows, keyOf).values()].flatMap((grants) => {
    const [{ row, contents }] = grants as [OpenedListing, ...OpenedListing[]]
    if (!contents.agent) return []
    const { clientId, clientName: name } = contents.agent
    const timesOf = (member: 'begun' | 'lastSeen' | 'ends') => grants.map(({ row }) => row[member])
    const distinct = (member: 'resource' | 'scopes') => [
      ...new Set(grants.flatMap(({ contents }) => contents.agent?.[member] ?? [])),
    ]
    const called = grants.filter(({ row }) => row.lastSeen > row.begun)
    return {
      id: row.sid,
      begun: Math.min(...timesOf('begun')),
      ends: Math.max(...timesOf('ends')),
      lastCall: called.length > 0 ? Math.max(...timesOf('lastSeen')) : undefined,
      clientHost: URL.parse(clientId)?.host,
      name,
      resources: distinct('resource'),
      scopes: distinct('scopes'),
      profile: profileOf(contents),
    }
  })
}

/** The newest grants of all clients that a search reads. */
const MAX_GRANTS = 100_000

type OpenedListing = Awaited<ReturnType<typeof findRows>>[number]

/** Finds the grants of a client, each as a session, the newest first. */
export async function findGrants(
  app: FastifyInstance,
  portal: Portal,
  clientId: string,
  people: PeopleFilter,
): Promise<readonly FoundSession[]> {
  const rows = await findRows(app, portal, people, MAX_GRANTS, true)
  return rows.flatMap(({ row, contents: { agent, ...contents } }) =>
    agent?.clientId === clientId
      ? [{ ...foundSessionOf({ row, contents }), hosts: [new URL(agent.resource).host] }]
      : [],
  )
}

/** The rows of people that have not ended, each once, with their contents. */
async function findRows(
  { authStore, keys, clock }: FastifyInstance,
  portal: Portal,
  people: PeopleFilter,
  limit: number,
  agents: boolean,
) {
  const listings = selections(portal, people).map((selection) =>
    authStore.listSessions({ ...selection, agents }, limit),
  )
  const rows = new Map((await Promise.all(listings)).flat().map((row) => [row.sid, row]))
  return [...rows.values()]
    .sort((a, b) => b.begun - a.begun)
    .slice(0, limit)
    .filter(({ ends }) => ends > clock.now())
    .flatMap((row) => {
      const contents = openRow(row, keys.record)
      return contents ? [{ row, contents }] : []
    })
}

/** The listings to read: a text may stand for an address, an identifier, or one of a provider. */
function selections({ name: portal, providers }: Portal, people: PeopleFilter) {
  if (people === 'everybody') return [{ portal }]
  if ('digest' in people) return [{ person: people.digest }]
  const { text } = people
  const persons = [...providers.keys()].flatMap((provider) => {
    const id = text.startsWith(`${provider}:`) ? text.slice(provider.length + 1) : text
    return [...new Set([id, text])].map((name) => personOf(portal, { provider, id: name }))
  })
  return [...persons.map((person) => ({ person })), { mail: mailOf(portal, text) }]
}
