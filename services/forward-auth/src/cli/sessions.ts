import { printable, UsageError } from '@gatehouse/service-kit/program'
import type { FastifyInstance } from 'fastify'
import { endTarget } from '../account/end.ts'
import { type FoundSession, findGrants, findSessions } from '../account/find.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { Portal } from '../portal/portals.ts'
import { operator, startAside } from './aside.ts'

/** The options of the command. */
export type SessionsQuery = { readonly end?: boolean; readonly asJson: boolean } & Readonly<
  Partial<Record<'portal' | 'person' | 'client', string | undefined>>
>

const MAX_SESSIONS = 10_000

/** The sessions of people, or the grants of a client, as lines; with `end` it ends them. */
export async function* listSessions(
  config: ForwardAuthConfig,
  query: SessionsQuery,
): AsyncGenerator<string> {
  const { portal: name, person, client, end, asJson } = query
  if (end && person === undefined && client === undefined)
    throw new UsageError('--end needs --person, whose sessions end, or --client')
  const app = await startAside(config)
  await using resources = new AsyncDisposableStack()
  resources.defer(() => app.close())
  const portals = portalsOf(app, name)
  if (!asJson) yield TITLES
  let count = 0
  const ender = { endedBy: 'operator', actor: operator() } as const
  for (const portal of portals) {
    const subject = person === undefined ? 'everybody' : { text: person }
    const sessions =
      client === undefined
        ? await findSessions(app, portal, subject, MAX_SESSIONS)
        : await findGrants(app, portal, client, subject)
    count += sessions.length
    for (const session of sessions) yield asJson ? jsonOf(portal, session) : lineOf(portal, session)
    if (end) await endTarget(app, portal, { person, client }, ender)
  }
  if (count === 0) requireNobody(query)
}

function portalsOf({ portals }: FastifyInstance, name: string | undefined): readonly Portal[] {
  if (name === undefined) return [...portals.values()]
  const portal = portals.get(name)
  if (portal) return [portal]
  throw new UsageError(`--portal must be one of ${[...portals.keys()].join(', ')}`)
}

/** @throws Error if somebody was named, who has nothing */
function requireNobody({ client, person }: SessionsQuery): void {
  const nobody = person === undefined ? 'nobody' : `nobody who is called ${printable(person)}`
  if (client !== undefined) throw new Error(`${nobody} has allowed ${printable(client)} anything`)
  if (person !== undefined)
    throw new Error(`nobody who is signed in is called ${printable(person)}`)
}

const WIDTHS = [10, 32, 20, 20, 15]

function cells(...texts: readonly string[]): string {
  const padded = texts.map((text, i) => printable(text).padEnd(WIDTHS[i] ?? 0))
  return `${padded.join('  ').trimEnd()}\n`
}

const TITLES = cells('PORTAL', 'PERSON', 'BEGUN', 'LAST SEEN', 'CLIENT', 'APPS')

function lineOf(
  { name }: Portal,
  { profile, begun, lastSeen, address, isOffline, hosts }: FoundSession,
): string {
  const times = [timeOf(begun), timeOf(lastSeen)]
  const person = `${profile.provider}:${profile.id}`
  const client = isOffline ? 'agents alone' : (address ?? '-')
  return cells(name, person, ...times, client, hosts.join(' ') || '-')
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}

const jsonOf = (portal: Portal, row: FoundSession) =>
  `${JSON.stringify(describeSession(portal, row))}\n`

/** Describes a session, with times in ISO 8601. */
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
