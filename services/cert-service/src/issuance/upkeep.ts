import { retentionOf } from '@gatehouse/cert-store/port'
import { renewalsOf } from '@gatehouse/issuance'
import { type IssuanceRequest, parseRequest } from '@gatehouse/issuance/request'
import { DAY, HOUR, RENEW_EVERY } from '@gatehouse/issuance/times'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'

const SECOND = 1_000
export const CHECK_STORE_EVERY = 5 * SECOND
const NEEDS_OPERATOR =
  'the CA needs its operator: set the clock if it is wrong, or see the guide of the embedded CA'

export interface UpkeepOptions
  extends Pick<CertServiceConfig, 'certificates' | 'storage' | 'audit'> {
  readonly random: () => number
}

/** Renews certificates, checks and prunes the store, and reports what is degraded. */
export const upkeep = fp<UpkeepOptions>(
  async (app: FastifyInstance, options) => {
    let configured = readConfigured(app, options)
    app.onReload<CertServiceConfig>((config) => {
      const next = readConfigured(app, config)
      return () => {
        configured = next
      }
    })
    const { loops, store, holdings, issuance, issuers, clock, log, ca } = app
    const { random } = options
    let isStoreUp = true
    let hasFuture = false
    app.addHealthCheck(() => {
      // Certificates that it has are answered without the store.
      const storePart = isStoreUp && !store.failure() ? [] : ['store']
      const clockPart = hasFuture ? ['clock'] : []
      const parts = new Set([...ca.degraded(), ...clockPart, ...issuers.degraded()])
      return { degraded: [...parts, ...storePart] }
    })
    const checkStore = async () => {
      const wasUp = isStoreUp
      const failure = await store.check().catch((error: unknown) => error)
      isStoreUp = failure === undefined
      if (wasUp && !isStoreUp) log.error({ err: failure }, 'the store cannot be used')
      if (!wasUp && isStoreUp) log.info({}, 'the store can be used again')
    }
    /** Makes due what was dated by a clock that was ahead, and replaces an intermediate in time. */
    const followClock = async () => {
      await ca.upkeep()
      holdings.forget(await store.makeFutureDue(clock.now()))
      hasFuture = await store.hasFuture(clock.now())
    }
    const renewals = renewalsOf({ store, holdings, issuance, issuers, clock, log, random })
    const renew = async (signal: AbortSignal) => {
      await followClock().catch((err: unknown) =>
        log.error({ err }, 'certificates from the future could not be rescheduled'),
      )
      if (store.isShared) await app.keyring.refresh()
      await issuance.resume()
      await renewals.renewDue(configured, signal)
    }
    loops.add(CHECK_STORE_EVERY, checkStore, 'store check failed')
    loops.add(RENEW_EVERY, renew, 'renewals could not be started')
    loops.add(RENEW_EVERY, (signal) => renewals.checkWindows(signal), 'renewal windows not checked')
    loops.add(HOUR, () => prune(app, options), 'old records could not be deleted')
    loops.add(DAY, (signal) => store.inspect(signal), 'the integrity check of the store failed')
    // At the start, and hardly ever again: replicas with two configurations must not try in turns.
    loops.add(DAY, () => issuance.voidOutdated(), 'outdated failures could not be deleted')
    loops.add(DAY, async () => warnOfCa(app), 'the CA could not be checked')
  },
  {
    name: 'cert-service/upkeep',
    dependencies: [
      'cert-service/issuance',
      'cert-service/events',
      'service-kit/health',
      'service-kit/reload',
      'cert-service/store',
      'service-kit/loops',
      'cert-service/issuers',
      'service-kit/clock',
    ],
  },
)

function readConfigured(
  { issuers }: FastifyInstance,
  { certificates }: Pick<CertServiceConfig, 'certificates'>,
): readonly IssuanceRequest[] {
  return certificates.map(({ names: [domain = '', ...names], keyType }) =>
    parseRequest({ domain, names, keyType }, issuers, () => Infinity),
  )
}

function warnOfCa({ store, ca, log }: FastifyInstance): void {
  if (!store.isLeader()) return
  const ends = { rootEnds: ca.rootEnds(), intermediateEnds: ca.intermediate().ends }
  for (const degraded of ca.degraded()) log.warn({ degraded, ...ends }, NEEDS_OPERATOR)
}

async function prune(
  { store, clock, outbox, ca }: FastifyInstance,
  { storage: { retention }, audit }: UpkeepOptions,
): Promise<void> {
  const now = () => clock.now()
  if (!store.isLeader()) return
  await store.bringForward(now())
  const { longest } = ca.servers
  const keptFor = retentionOf({ retention, longest }, audit.retention)
  while ((await store.prune(now(), keptFor)) > 0);
  await Promise.all([store.pruneUsage(now()), outbox?.prune()])
}
