import { hash, X509Certificate } from 'node:crypto'
import { readName } from '@gatehouse/issuance/request'
import { createTurns, type IpAddress, type LookupAll, sleep, systemLookup } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { type Probe, probe, serverNameFor } from '@gatehouse/tls-probe'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'
import { isDue, unseen } from './decide.ts'
import { findProbe, headsOf, note } from './note.ts'
import { addressesOf, type Endpoint, type Plan, planOf } from './places.ts'

const LOOK_EVERY = 20_000
const AT_ONCE = 16
/** Between two connections, in ms: five a second. */
const SPACING = 200
/** Rounds after which a place that nobody finds any more is forgotten. */
const MAX_MISSED = 3

declare module 'fastify' {
  interface FastifyInstance {
    /** Where to look at what is served; undefined: nowhere. */
    readonly probePlan: Plan | undefined
  }
}

export interface ProberOptions extends Pick<CertServiceConfig, 'probe'> {
  readonly random: () => number
  readonly lookup?: LookupAll | undefined
  /** Default: over the network. */
  readonly look?: typeof probe | undefined
}

/** Looks at what is served under the names of certificates. */
export const prober = fp<ProberOptions>(
  async (app: FastifyInstance, options) => {
    const plan = (config: Pick<CertServiceConfig, 'probe'>) => config.probe && planOf(config.probe)
    await app.decorateReloaded('probePlan', options, plan)
    const look = proberOf(app, options)
    app.loops.add(LOOK_EVERY, look, 'what is served could not be looked at', 'warn')
  },
  {
    name: 'cert-service/prober',
    dependencies: [
      'cert-service/store',
      'cert-service/issuers',
      'cert-service/events',
      'service-kit/clock',
      'service-kit/loops',
      'service-kit/reload',
    ],
  },
)

function proberOf(
  app: FastifyInstance,
  { random, lookup = systemLookup, look = probe }: ProberOptions,
): (signal: AbortSignal) => Promise<void> {
  const { store, clock } = app
  const inTurn = createTurns()
  let nextLook = 0

  /** Waits until the next connection may be made. A clock that is set back delays it by no more than all that wait. */
  async function pace(signal: AbortSignal): Promise<void> {
    const now = clock.now()
    const start = Math.min(Math.max(nextLook, now), now + AT_ONCE * SPACING)
    nextLook = start + SPACING
    if (start > now) await sleep(clock, start - now, signal)
  }

  /** Looks at a place unless somebody has just done so. */
  async function lookAt(
    name: Name,
    place: Endpoint,
    address: IpAddress,
    { plan, isOfBoth, signal }: Round,
  ) {
    const spot = spotOf(name, place, address.text)
    const { previous } = await findProbe(app, spot)
    if (previous && !isDue(previous, plan.interval, clock.now())) return
    const see = async (keyType?: 'rsa' | 'ec') => {
      await pace(signal)
      const target = {
        ...place,
        address: address.text,
        serverName: serverNameFor(name.text),
        keyType,
      }
      return servedBy(await look(target, { signal }))
    }
    const isAllowed = plan.allows(address)
    const served = isAllowed ? await see() : undefined
    const nothing = unseen(isAllowed ? 'unreachable' : 'outside', clock.now())
    await note(app, spot, served ?? nothing)
    if (!served || !isOfBoth) return
    const keyType = served.isRsa ? 'ec' : 'rsa'
    const second = await see(keyType)
    // A server need not have the other kind.
    if (second) await note(app, { ...spot, keyType }, second)
  }

  async function lookUnder(text: string, plan: Plan, signal: AbortSignal): Promise<void> {
    const name = readName(text)
    const heads = await headsOf(app, text)
    const isOfBoth = new Set(heads.map(({ keyType }) => keyType.startsWith('rsa'))).size > 1
    for (const place of plan.placesOf(name)) {
      const addresses = await addressesOf(place.host, plan, { lookup, clock })
      for (const address of addresses)
        await inTurn(address.text, () => lookAt(name, place, address, { plan, isOfBoth, signal }))
      if (addresses.length > 0) continue
      const spot = spotOf(name, place, '')
      await note(app, spot, unseen('unreachable', clock.now()))
    }
  }

  async function work(plan: Plan, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const now = clock.now()
      // Its next turn is then, whoever takes it.
      const until = Math.round(now + plan.interval * (0.75 + random() / 2))
      const [certificate] = await store.claimUnprobed(now, 1, until)
      if (!certificate) return
      for (const text of certificate.names) if (!signal.aborted) await lookUnder(text, plan, signal)
    }
  }

  return async (signal) => {
    const { probePlan: plan } = app
    const workers = plan ? Array.from({ length: AT_ONCE }, () => work(plan, signal)) : []
    const results = await Promise.allSettled(workers)
    if (signal.aborted) return
    for (const result of results) if (result.status === 'rejected') throw result.reason
    const now = clock.now()
    await store.pruneProbes(now, plan ? now - MAX_MISSED * plan.interval : now + 1)
  }
}

/** A look at all places of a name. */
interface Round {
  readonly plan: Plan
  /** Whether there are certificates for both kinds of keys. */
  readonly isOfBoth: boolean
  readonly signal: AbortSignal
}

const spotOf = ({ text: name }: Name, place: Endpoint, address: string) =>
  ({ ...place, name, address, keyType: '', reporter: '' }) as const

function servedBy(seen: Probe) {
  const [leaf] = 'failure' in seen ? [] : seen.certificates
  if (!leaf || 'failure' in seen) return undefined
  const isRsa = new X509Certificate(leaf).publicKey.asymmetricKeyType === 'rsa'
  return { sha256: hash('sha256', leaf), certificates: seen.certificates, isRsa }
}
