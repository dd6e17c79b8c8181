import {
  hintAt,
  listing,
  printable,
  type TableColumns,
  UsageError,
} from '@gatehouse/service-kit/program'
import type { FastifyInstance } from 'fastify'
import { endTarget } from '../account/end.ts'
import { type FoundSession, findGrants, findSessions } from '../account/find.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { Portal } from '../portal/portals.ts'
import { operator, startAside } from './aside.ts'
import { onePortal } from './person.ts'

/** The options of the command. */
export type SessionsQuery = { readonly end?: boolean; readonly json?: boolean } & Readonly<
  Partial<Record<'portal' | 'person' | 'client', string | undefined>>
>

const MAX_SESSIONS = 10_000

/** The sessions of people, or the grants of a client, as lines, the newest last; with `end` it ends them. */
export async function* listSessions(
  config: ForwardAuthConfig,
  query: SessionsQuery,
): AsyncGenerator<string> {
  const { portal: name, person, client, end } = query
  if (end && person === undefined && client === undefined)
    throw new UsageError('--end needs --person, whose sessions end, or --client')
  const app = await startAside(config)
  await using resources = new AsyncDisposableStack()
  resources.defer(() => app.close())
  const all = [...app.portals.values()]
  const portals = name === undefined ? all : [onePortal(all, name)]
  const rows = await rowsOf(app, portals, query)
  if (rows.length === 0 && (client ?? person) !== undefined) {
    const everybody = await rowsOf(app, portals, {})
    const names = everybody.flatMap((row) => [row.email ?? row.person, row.person])
    throw new Error(printable(noneOf(query) + hintAt(person ?? '', names)))
  }
  yield* listing(rows, COLUMNS, query)
  if (!end) return
  const ender = { endedBy: 'operator', actor: operator() } as const
  for (const portal of portals) await endTarget(app, portal, { person, client }, ender)
}

async function rowsOf(
  app: FastifyInstance,
  portals: readonly Portal[],
  { client, person }: SessionsQuery,
) {
  const subject = person === undefined ? 'everybody' : { text: person }
  const rows = []
  for (const portal of portals) {
    const sessions =
      client === undefined
        ? await findSessions(app, portal, subject, MAX_SESSIONS)
        : await findGrants(app, portal, client, subject)
    rows.push(...sessions.map((session) => describeSession(portal, session)))
  }
  return rows.sort((a, b) => (a.begun < b.begun ? -1 : 1))
}

/** Says that nobody who is named has anything. */
function noneOf({ client, person = '' }: SessionsQuery): string {
  if (client === undefined) return `nobody who is signed in is called ${person}`
  const nobody = person === '' ? 'nobody' : `nobody who is called ${person}`
  return `${nobody} has allowed ${client} anything`
}

const COLUMNS: TableColumns<ReturnType<typeof describeSession>> = {
  PERSON: ({ person }) => person,
  BEGUN: ({ begun }) => begun,
  'LAST SEEN': ({ lastSeen }) => lastSeen,
  APPS: ({ hosts }) => hosts.join(' '),
  FROM: ({ clientAddress, isOffline }) => (isOffline ? 'agents alone' : clientAddress),
  PORTAL: ({ portal }) => portal,
}

/** Describes a session, with times as JSON has them. */
export function describeSession({ name: portal }: Portal, row: FoundSession) {
  const { profile, id: session, begun, lastSeen, ends, address, userAgent, hosts, isOffline } = row
  const { provider, id, name, email } = profile
  return {
    portal,
    session,
    person: `${provider}:${id}`,
    name: name?.full,
    email: email?.address,
    begun: new Date(begun).toISOString(),
    lastSeen: new Date(lastSeen).toISOString(),
    ends: new Date(ends).toISOString(),
    clientAddress: address,
    userAgent,
    hosts,
    ...(isOffline && { isOffline }),
  }
}
