import { parseNameRule } from '@gatehouse/pki'
import type { Clock, Metrics } from '@gatehouse/service-kit'
import { type Audit, createAudit } from './audit.ts'
import { domainsClaimOf, takesTokens } from './config/auth.ts'
import type { CertServiceConfig } from './config/schema.ts'
import { createHoldings, type Holdings } from './issuance/holdings.ts'
import { createIssuance, type Issuance } from './issuance/obtain.ts'
import { type CertificateRequest, parseRequest } from './issuance/request.ts'
import { renewDue } from './issuance/scheduler.ts'
import { type Ca, openCa } from './issuers/ca.ts'
import type { Issuer } from './issuers/issuer.ts'
import { createCertMetrics } from './metrics.ts'
import { createPolicy, isOpenToTokens, type Policy } from './policy.ts'
import { repeat } from './repeat.ts'
import { openKeyring } from './sealing/keyring.ts'
import { openStore } from './store/open.ts'
import type { Store } from './store/store.ts'

const SECOND = 1_000
const CHECK_STORE_EVERY = 5 * SECOND
const RENEW_EVERY = 30 * SECOND
const UPKEEP_EVERY = 3_600 * SECOND

/** Everything of cert-service but HTTP. */
export interface Service {
  readonly store: Store
  readonly audit: Audit
  readonly holdings: Holdings
  readonly issuance: Issuance
  readonly issuer: Issuer
  readonly ca: Ca
  readonly clock: Clock
  policy(): Policy
  readiness(): { ready: boolean; reason?: 'draining' | 'store'; degraded: readonly string[] }
  /** Starts renewing, checking and pruning. */
  start(): void
  /** Takes up the policy and the configured certificates of a changed configuration. */
  reload(config: CertServiceConfig): Promise<void>
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
  /** Default: SQLite in `storage.path`. */
  openStore?: typeof openStore
  /** Default: the embedded CA. */
  issuer?(ca: Ca): Issuer
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
  const store = await (deps.openStore ?? openStore)({ folder: config.storage.path })
  try {
    return await assemble(config, store, deps)
  } catch (error) {
    await store.close()
    throw error
  }
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
  const ca = await openCa({ ...config.ca, permitted }, { store, keyring, now })
  const issuer = deps.issuer?.(ca) ?? ca
  const audit = createAudit({ store, clock, log })
  const holdings = createHoldings({ store, keyring, now })
  const metrics = createCertMetrics(deps.metrics, {
    flights: () => issuance.flights.size,
    intermediateEnds: () => ca.intermediate().info.notAfter,
  })
  const { wait } = config.issuance
  const issuance = createIssuance({
    store,
    keyring,
    holdings,
    issuer,
    audit,
    metrics,
    clock,
    log,
    wait,
    random,
  })

  let policy = policyOf(config, log)
  let configured = await configuredOf(config, issuer)
  let storeIsUp = true
  let draining = false
  let loops: readonly { stop(): Promise<void> }[] = []

  async function checkStore(): Promise<void> {
    storeIsUp = await store.check().then(
      () => true,
      () => false,
    )
  }

  async function upkeep(): Promise<void> {
    await ca.upkeep()
    for (const name of ca.degraded())
      log.warn({ degraded: name }, 'the CA needs its operator: see the guide of the embedded CA')
    const { audit: rows, storage } = config
    const ended = now() - storage.retention
    const before = { audit: now() - rows.retention, certificates: ended, orders: ended }
    while ((await store.prune(before)) > 0);
  }

  return {
    store,
    audit,
    holdings,
    issuance,
    issuer,
    ca,
    clock,
    policy: () => policy,
    readiness() {
      const degraded = ca.degraded()
      if (draining) return { ready: false, reason: 'draining', degraded }
      return storeIsUp ? { ready: true, degraded } : { ready: false, reason: 'store', degraded }
    },
    start() {
      const failed = (what: string) => (error: unknown) => log.error({ err: error }, what)
      const renew = async () => {
        await issuance.resume()
        await renewDue(configured, { store, holdings, issuance, clock, log })
      }
      loops = [
        repeat(clock, CHECK_STORE_EVERY, checkStore, failed('store check failed')),
        repeat(clock, RENEW_EVERY, renew, failed('renewing failed')),
        repeat(clock, UPKEEP_EVERY, upkeep, failed('upkeep failed')),
      ]
    },
    async reload(changed) {
      policy = policyOf(changed, log)
      configured = await configuredOf(changed, issuer)
    },
    drain() {
      draining = true
    },
    async close() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await issuance.close()
      await audit.close()
      await store.close()
    },
  }
}

function policyOf({ auth, rules }: CertServiceConfig, log: Log): Policy {
  const options = { domainsClaim: domainsClaimOf(auth), rules }
  if (takesTokens(auth) && isOpenToTokens(options))
    log.warn({}, 'every token may have every name: neither a domainsClaim nor rules are configured')
  return createPolicy(options)
}

async function configuredOf(
  { certificates }: CertServiceConfig,
  issuer: Issuer,
): Promise<readonly CertificateRequest[]> {
  return Promise.all(
    certificates.map(({ names: [domain = '', ...names], keyType }) =>
      parseRequest({ domain, names, keyType }, issuer),
    ),
  )
}
