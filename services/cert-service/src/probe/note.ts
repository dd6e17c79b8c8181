import { isNotServed, MAX_REPORTS, type ProbeRecord } from '@gatehouse/cert-store/port'
import { profileOf, readName } from '@gatehouse/issuance/request'
import type { FastifyInstance } from 'fastify'
import { lateness } from '../events/event.ts'
import { decide, follow, type Seen, type ServedChain } from './decide.ts'

/** A place under a name, and who looks at it. */
export type Spot = Pick<
  ProbeRecord,
  'name' | 'host' | 'address' | 'port' | 'protocol' | 'keyType' | 'reporter'
>

/** Finds what is known of a place, and whether it may be kept: callers may tell of a few places of a name. */
export async function findProbe(
  { store }: Pick<FastifyInstance, 'store'>,
  spot: Spot,
): Promise<{ readonly previous: ProbeRecord | undefined; readonly isRoom: boolean }> {
  const members = Object.keys(spot) as (keyof Spot)[]
  const probes = await store.listProbes([spot.name])
  const previous = probes.find((row) =>
    members.every((member) => member === 'protocol' || row[member] === spot[member]),
  )
  const reports = probes.filter(({ reporter }) => reporter !== '')
  const isRoom = previous !== undefined || spot.reporter === '' || reports.length < MAX_REPORTS
  return { previous, isRoom }
}

/** The certificates of servers in service that have a name. */
export async function headsOf({ store }: Pick<FastifyInstance, 'store'>, name: string) {
  return (await store.findByName(name)).filter((record) => profileOf(record) === 'server')
}

/** Keeps what is served at a place, and tells of a change. Gives the row, unless that is no concern of this service. */
export async function note(
  app: FastifyInstance,
  spot: Spot,
  seen: Seen | ServedChain,
): Promise<Omit<ProbeRecord, 'id'> | undefined> {
  const { store, clock, certEvents } = app
  const now = clock.now()
  const heads = await headsOf(app, spot.name)
  const judged = 'state' in seen ? seen : await judge(app, spot.name, seen, heads)
  if (!judged) return undefined
  const { previous, isRoom } = await findProbe(app, spot)
  const probe = { ...spot, ...follow(previous, judged), seenAt: now }
  if (!isRoom) return probe
  await store.saveProbe(probe)
  const was = previous !== undefined && isNotServed(previous, previous.seenAt)
  const isWrong = isNotServed(probe, now)
  const issuer = heads[0]?.issuer ?? 'ca'
  if (isWrong && !was) certEvents?.emit({ type: 'not-served', probe, issuer })
  const isRight = probe.state === 'newest' || probe.state === 'incomplete'
  if (was && isRight) certEvents?.emit({ type: 'served-again', probe, issuer })
  return probe
}

async function judge(
  { store, clock, ca }: FastifyInstance,
  name: string,
  served: ServedChain,
  heads: Awaited<ReturnType<typeof headsOf>>,
): Promise<Seen | undefined> {
  const now = clock.now()
  const issued = await store.findIssued(served.sha256)
  const isLate = issued?.isCurrent && lateness(issued, now) > 0
  const isForgotten = isLate ? (await store.findCoverage(issued.id)) !== undefined : false
  const roots = ca.roots()
  return decide({ name: readName(name), served, issued, isForgotten, heads, roots, now })
}
