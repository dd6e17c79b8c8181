import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { ChallengeStore } from '@gatehouse/acme'
import { parseNameRule } from '@gatehouse/pki'
import type { Clock, Commit, Metrics } from '@gatehouse/service-kit'
import { type Audit, createAudit } from './audit.ts'
import { domainsClaimOf, keyRightsOf, takesTokens } from './config/auth.ts'
import type { CertServiceConfig } from './config/schema.ts'
import { CertError } from './errors.ts'
import { openWebhook } from './events/webhook.ts'
import { createDryRun, type DryRunner } from './issuance/dry-run.ts'
import type { Events } from './issuance/events.ts'
import { createHoldings, type Holdings } from './issuance/holdings.ts'
import { createIssuance, type Issuance } from './issuance/obtain.ts'
import { checkRenewalWindows } from './issuance/renewal-windows.ts'
import { type CertificateRequest, parseRequest } from './issuance/request.ts'
import { renewDue } from './issuance/scheduler.ts'
import { createChallengeStore } from './issuers/acme/challenges.ts'
import { type AcmeDeps, openAcmeIssuers } from './issuers/acme/issuer.ts'
import { type Ca, openCa } from './issuers/ca.ts'
import type { Issuer } from './issuers/issuer.ts'
import { createIssuers, type Issuers } from './issuers/issuer.ts'
import { createCallerGate } from './limits/callers.ts'
import { type Ledger, openLedger } from './limits/ledger.ts'
import { createCertMetrics } from './metrics.ts'
import { createPolicy, isOpenToTokens, type Policy } from './policy.ts'
import { repeat } from './repeat.ts'
import { openKeyring } from './sealing/keyring.ts'
import { openStore, storeFile } from './store/open.ts'
import type { Store } from './store/store.ts'

const SECOND = 1_000
const CHECK_STORE_EVERY = 5 * SECOND
const RENEW_EVERY = 30 * SECOND
const HOUR = 3_600 * SECOND
const DAY = 24 * HOUR

/** Everything of cert-service but HTTP. */
export interface Service {
  readonly store: Store
  readonly audit: Audit
  readonly holdings: Holdings
  readonly issuance: Issuance
  readonly issuers: Issuers
  readonly ca: Ca
  /** Answers to the challenges of CAs. */
  readonly challenges: ChallengeStore
  /** What is left of the limits of CAs. */
  readonly ledger: Ledger
  readonly dryRun: DryRunner
  readonly clock: Clock
  policy(): Policy
  readiness(): { ready: boolean; reason?: 'draining' | 'store'; degraded: readonly string[] }
  /** Starts renewing, checking and pruning. */
  start(): void
  /** Makes policy and configured certificates of a changed configuration; gives what takes them up. */
  prepare(config: CertServiceConfig): Promise<Commit>
  /** Says in `readiness` that the service is about to end. */
  drain(): void
  close(): Promise<void>
}

/** What comes from outside; tests replace it. */
export interface ServiceDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: Metrics
  /** From 0 up to 1; default Math.random. */
  random?(): number
  /** Milliseconds from a clock that nobody can set; default: how long this process has been running. */
  elapsed?(): number
  /** Whether a store may be made for a master key that is there already. */
  readonly isNew?: boolean | undefined
  /** Default: SQLite in `storage.path`. */
  openStore?: typeof openStore
  /** The one that signs what no configured issuer does; default: the embedded CA. */
  issuer?(ca: Ca): Issuer
  /** Default: nobody. */
  readonly events?: Events
  /** Default: by its type. */
  readonly createSolver?: AcmeDeps['createSolver']
}

interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/**
 * Opens store, keys and CA.
 *
 * @throws CertError CERT_STORE_…, CERT_MASTER_KEY_…, CERT_ROOT_KEY_ABSENT; PkiError PKI_CA_…
 */
export async function openService(config: CertServiceConfig, deps: ServiceDeps): Promise<Service> {
  const { path: folder } = config.storage
  if (!deps.isNew) refuseLostStore(config.storage)
  const store = await (deps.openStore ?? openStore)({ folder, elapsed: deps.elapsed })
  try {
    return await assemble(config, store, deps)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Where a master key is, there was a store: a new CA in its place would only hide that it is lost. */
function refuseLostStore({ path, masterKeyFile }: CertServiceConfig['storage']): void {
  if (existsSync(storeFile(path)) || !existsSync(masterKeyFile)) return
  const cure = 'restore a backup, or start once with `serve --new` to make a new CA'
  throw new CertError(
    'CERT_STORE_LOST',
    `${masterKeyFile} is the key of a store, but there is none in ${path}: ${cure}.`,
  )
}

function logRoot(ca: Ca, log: Log): void {
  const root = ca.root()
  if (!root) return
  const { subject, fingerprint256 } = new X509Certificate(root)
  log.info({ subject, fingerprint256 }, 'the root of the embedded CA')
}

async function assemble(
  config: CertServiceConfig,
  store: Store,
  deps: ServiceDeps,
): Promise<Service> {
  const { clock, log, random = Math.random } = deps
  const now = () => clock.now()
  const { path: folder, masterKeyFile } = config.storage
  const keyring = await openKeyring({ masterKeyFile, folder, store })
  const permitted = config.ca.permitted.map(parseNameRule)
  const ca = await openCa({ ...config.ca, permitted }, { store, keyring, now, log })
  logRoot(ca, log)
  const challenges = createChallengeStore(store, clock)
  const ledger = await openLedger({ issuers: config.issuers, store, now, log })
  const acme = await openAcmeIssuers(config.issuers, {
    store,
    keyring,
    challenges,
    limits: {
      ...ledger,
      ordered(order) {
        metrics.ordered(order.issuer)
        ledger.ordered(order)
      },
    },
    clock,
    log,
    createSolver: deps.createSolver,
  })
  const issuers = createIssuers(acme.issuers, deps.issuer?.(ca) ?? ca)
  const audit = createAudit({ store, clock, log })
  const holdings = createHoldings({ store, keyring, now })
  const metrics = createCertMetrics(deps.metrics, {
    issuers: config.issuers.map(({ name }) => name),
    now,
    flights: () => issuance.flights.size,
    // What else is measured is of most use while the store is not.
    endings: (limit) => store.listEnding(limit).catch(() => ({ soonest: [], total: 0 })),
    backlog: () => store.countEvents().catch(() => 0),
    intermediateEnds: () => ca.intermediate().info.notAfter,
  })
  const { webhook: hook } = config.events
  const webhook = hook && (await openWebhook(hook, { store, clock, log }))
  let limits = config.limits
  const callers = createCallerGate({ store, limits: () => limits, now })
  const issuance = createIssuance({
    callers,
    limits: () => limits,
    store,
    keyring,
    holdings,
    issuers,
    audit,
    metrics,
    events: deps.events ?? webhook ?? { emit() {} },
    clock,
    log,
    wait: config.issuance.wait,
    random,
  })

  let policy = policyOf(config)
  warnIfOpen(config, log)
  let configured = await configuredOf(config, issuers)
  let storeIsUp = true
  let hasFuture = false
  let draining = false
  let loops: readonly { stop(): Promise<void> }[] = []

  async function checkStore(): Promise<void> {
    const wasUp = storeIsUp
    const failure = await store.check().catch((error: unknown) => error)
    storeIsUp = failure === undefined
    if (wasUp && !storeIsUp) log.error({ err: failure }, 'the store cannot be used')
    if (!wasUp && storeIsUp) log.info({}, 'the store can be used again')
  }

  /** Sees to what was dated by a clock that was ahead, and to what is due at the CA. */
  async function followClock(): Promise<void> {
    await ca.upkeep()
    for (const lineage of await store.makeFutureDue(now())) holdings.forget(lineage)
    hasFuture = await store.hasFuture(now())
  }

  async function upkeep(): Promise<void> {
    await store.bringForward(now())
    for (const name of ca.degraded())
      log.warn({ degraded: name }, 'the CA needs its operator: see the guide of the embedded CA')
    const { retention } = config.storage
    const keptFor = {
      audit: config.audit.retention,
      certificates: retention,
      orders: retention,
      challenges: HOUR,
    }
    while ((await store.prune(now(), keptFor)) > 0);
    await Promise.all([ledger.prune(), webhook?.prune()])
  }

  return {
    store,
    audit,
    holdings,
    issuance,
    issuers,
    ca,
    challenges,
    ledger,
    dryRun: createDryRun({ issuance, store, ledger }),
    clock,
    policy: () => policy,
    readiness() {
      const clock = hasFuture ? ['clock'] : []
      const degraded = [...new Set([...ca.degraded(), ...clock, ...issuers.degraded()])]
      if (draining) return { ready: false, reason: 'draining', degraded }
      return storeIsUp && !store.failure()
        ? { ready: true, degraded }
        : { ready: false, reason: 'store', degraded }
    },
    start() {
      const failed = (what: string) => (error: unknown) => log.error({ err: error }, what)
      const parts = { store, holdings, issuance, issuers, clock, log, random }
      const renew = async (signal: AbortSignal) => {
        await followClock().catch(failed('the clock could not be followed'))
        await issuance.resume()
        await renewDue(configured, parts, signal)
      }
      const checkWindows = (signal: AbortSignal) => checkRenewalWindows(parts, signal)
      loops = [
        repeat(clock, CHECK_STORE_EVERY, checkStore, failed('store check failed')),
        repeat(clock, RENEW_EVERY, renew, failed('renewing failed')),
        repeat(clock, RENEW_EVERY, checkWindows, failed('asking when to renew failed')),
        repeat(clock, HOUR, upkeep, failed('upkeep failed')),
        repeat(clock, DAY, store.inspect, failed('the store was not found sound')),
      ]
      webhook?.start()
    },
    async prepare(changed) {
      const nextConfigured = await configuredOf(changed, issuers)
      const nextPolicy = policyOf(changed)
      return () => {
        configured = nextConfigured
        policy = nextPolicy
        limits = changed.limits
        warnIfOpen(changed, log)
      }
    },
    drain() {
      draining = true
    },
    async close() {
      // At once: the loops wait for what is being issued.
      const stopped = loops.map((loop) => loop.stop())
      await issuance.close()
      await Promise.all(stopped)
      await webhook?.close()
      await acme.close()
      await audit.close()
      await store.close()
    },
  }
}

function policyOf({ auth, rules }: CertServiceConfig): Policy {
  return createPolicy({
    domainsClaim: domainsClaimOf(auth),
    keyRights: keyRightsOf(auth),
    rules,
  })
}

function warnIfOpen({ auth, rules }: CertServiceConfig, log: Log): void {
  if (takesTokens(auth) && isOpenToTokens({ domainsClaim: domainsClaimOf(auth), rules }))
    log.warn({}, 'every token may have every name: neither a domainsClaim nor rules are configured')
}

async function configuredOf(
  { certificates }: CertServiceConfig,
  issuers: Issuers,
): Promise<readonly CertificateRequest[]> {
  return Promise.all(
    certificates.map(({ names: [domain = '', ...names], keyType }) =>
      parseRequest({ domain, names, keyType }, issuers, () => {}),
    ),
  )
}
