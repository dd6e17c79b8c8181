import { printable, UsageError } from '@gatehouse/service-kit/program'
import { endsAt } from '../account/end.ts'
import { type FoundSession, findSessions } from '../account/find.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { Portal } from '../portals.ts'
import { endSessions } from '../session/ends.ts'
import { operator, startAside } from './aside.ts'

export interface SessionsQuery {
  readonly portal?: string | undefined
  /** E-mail address, identifier, or `<provider>:<identifier>`. */
  readonly person?: string | undefined
  /** Ends the sessions of the person. */
  readonly end: boolean
  readonly asJson: boolean
}

/** Sessions that are listed. */
const MAX_SESSIONS = 10_000

/** The sessions of people, as lines; with `end` it ends them. */
export async function* listSessions(
  config: ForwardAuthConfig,
  { portal: name, person, end, asJson }: SessionsQuery,
): AsyncGenerator<string> {
  if (end && person === undefined) throw new UsageError('--end needs --person, whose sessions end')
  const app = await startAside(config)
  await using opened = new AsyncDisposableStack()
  opened.defer(() => app.close())
  const portals = [...app.portals.values()].filter((one) => name === undefined || one.name === name)
  if (portals.length === 0)
    throw new UsageError(`--portal must be one of ${[...app.portals.keys()].join(', ')}`)
  if (!asJson) yield TITLES
  let isFound = person === undefined
  const actor = operator()
  for (const portal of portals) {
    const whose = person === undefined ? 'everybody' : { text: person }
    for (const session of await findSessions(app, portal, whose, MAX_SESSIONS)) {
      isFound = true
      yield asJson ? jsonOf(portal, session) : lineOf(portal, session)
    }
    if (end)
      await endSessions(app, await endsAt(app, portal, { person }), { endedBy: 'operator', actor })
  }
  if (!isFound) throw new Error(`nobody who is signed in is called ${printable(person ?? '')}`)
}

const WIDTHS = [10, 32, 20, 20, 15]

function cells(...texts: readonly string[]): string {
  const padded = texts.map((text, i) => printable(text).padEnd(WIDTHS[i] ?? 0))
  return `${padded.join('  ').trimEnd()}\n`
}

const TITLES = cells('PORTAL', 'PERSON', 'BEGUN', 'LAST SEEN', 'CLIENT', 'APPS')

function lineOf(
  { name }: Portal,
  { profile, begun, lastSeen, address, hosts }: FoundSession,
): string {
  const times = [timeOf(begun), timeOf(lastSeen)]
  const person = `${profile.provider}:${profile.id}`
  return cells(name, person, ...times, address ?? '-', hosts.join(' ') || '-')
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}

function jsonOf({ name: portal }: Portal, { profile, id: session, ...of }: FoundSession): string {
  const { begun, lastSeen, ends, address, userAgent, hosts } = of
  const { provider, id, name, email } = profile
  return `${JSON.stringify({
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
  })}\n`
}
