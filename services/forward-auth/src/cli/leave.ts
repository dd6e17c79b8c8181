import type { Profile } from '@gatehouse/profile'
import { escaped, hintAt, printable } from '@gatehouse/service-kit/program'
import type { FastifyInstance } from 'fastify'
import { stringify } from 'yaml'
import { findAgents, findSessions } from '../account/find.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { Portal } from '../portal/portals.ts'
import { endSessions } from '../session/ends.ts'
import { nameAtProvider, personOf } from '../session/session.ts'
import { readAudit } from '../store/open.ts'
import type { AuditRow, End } from '../store/store.ts'
import { operator, startAside } from './aside.ts'
import { aliasesOf, isAbout, MAX_NAMES } from './audit.ts'
import { describeSession } from './sessions.ts'

const MAX_LISTED = 10_000
/** The seconds by which the clock of a provider may be ahead. */
const SKEW = 60

type Person = Pick<Profile, 'provider' | 'id'>

/** Ends what a person has, or says what that is. Gives the proof, which names what has to be ended elsewhere. */
export async function leave(
  config: ForwardAuthConfig,
  text: string,
  { yes = false, json }: { readonly yes?: boolean; readonly json?: boolean },
): Promise<string> {
  const app = await startAside(config)
  await using resources = new AsyncDisposableStack()
  resources.defer(() => app.close())
  const person = await identify(app, config, text)
  const portals = [...app.portals.values()].filter(({ providers }) =>
    providers.has(person.provider),
  )
  const found = await Promise.all(portals.map((portal) => findAt(app, portal, person)))
  const ender = { endedBy: 'operator', actor: operator() } as const
  if (yes) for (const portal of portals) await endSessions(app, endsAt(app, portal, person), ender)
  await app.auditTrail.flush()
  const label = `${person.provider}:${person.id}`
  const proof = {
    ...{ person: label, time: new Date(app.clock.now()).toISOString(), actor: ender.actor },
    ...{ dryRun: !yes, found, ended: await readEnds(config, label) },
    remains: remainsOf(config, person),
  }
  return json ? `${JSON.stringify(proof)}\n` : escaped(stringify(proof, { lineWidth: 0 }))
}

/** Finds the person who is called so, who may have nothing any more. @throws Error if there is none, or several */
async function identify(app: FastifyInstance, { storage }: ForwardAuthConfig, text: string) {
  const people = new Map<string, Person>()
  const names = new Set<string>()
  for (const portal of app.portals.values())
    for (const { profile } of await findSessions(app, portal, { text }, MAX_LISTED))
      people.set(`${profile.provider}:${profile.id}`, profile)
  for await (const row of readAudit(storage, 0)) {
    const { event, provider = '', person = '*' } = row
    if (person === '*' || !['sign-in', 'session-ended'].includes(event)) continue
    const id = person.slice(provider.length + 1)
    if (names.size < MAX_NAMES)
      for (const alias of [person, id, ...aliasesOf(row)]) names.add(alias)
    if (isAbout(row, text)) people.set(person, { provider, id })
  }
  return selectOne(people, text, [...names])
}

function selectOne(
  people: ReadonlyMap<string, Person>,
  text: string,
  names: readonly string[],
): Person {
  const [person, ...others] = people.has(text) ? [people.get(text)] : people.values()
  if (person && others.length === 0) return person
  const labels = [...people.keys()].join(' or ')
  if (person) throw new Error(printable(`${text} may be ${labels}: name one of them`))
  throw new Error(printable(`nobody has signed in who is called ${text}${hintAt(text, names)}`))
}

async function findAt(app: FastifyInstance, portal: Portal, person: Person) {
  const digest = personOf(portal.name, person)
  const sessions = await findSessions(app, portal, { digest }, MAX_LISTED)
  const agents = await findAgents(app, portal, { digest }, MAX_LISTED)
  return {
    portal: portal.name,
    sessions: sessions.map((session) => describeSession(portal, session)),
    agents: agents.map(({ name, clientHost, resources }) => ({ name, clientHost, resources })),
  }
}

/** A sign-in that is under way ends too, where its provider says when it was. */
function endsAt({ clock }: FastifyInstance, portal: Portal, person: Person): readonly End[] {
  const target = { person: personOf(portal.name, person) }
  const provider = portal.providers.get(person.provider)
  const relation = provider?.type === 'redirect' ? provider.relation : undefined
  if (!relation) return [target]
  const issuedUntil = Math.floor(clock.now() / 1_000) + SKEW
  return [{ subject: nameAtProvider(relation, 'sub', person.id), issuedUntil }, target]
}

/** Reads what operators have ended of a person, also in earlier runs. */
async function readEnds({ storage }: ForwardAuthConfig, label: string) {
  const ends: AuditRow[] = []
  for await (const row of readAudit(storage, 0))
    if (row.endedBy === 'operator' && row.person === label) ends.push(row)
  return ends
}

/** Says what this service cannot end, and how that ends. */
function remainsOf({ portals }: ForwardAuthConfig, { provider }: Person) {
  const keys = portals.flatMap(({ callers }) => callers?.keys.map(({ name }) => name) ?? [])
  return {
    [`account at ${provider}`]: 'close it there, as they can sign in again with it',
    'sessions of apps': 'end them in each app',
    ...(keys.length > 0 && { 'API keys': `replace those that they knew of ${keys.join(', ')}` }),
    'API keys of cert-service': 'gatehouse-certs incident key NAME',
    'client certificates':
      'gatehouse-certs revoke NAME --profile client --reason affiliationChanged',
  }
}
