import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'
import { HandedOut } from '../issuance/handed-out.ts'
import { Holdings } from '../issuance/held.ts'
import { Issuance } from '../issuance/issuance.ts'
import { Callers } from '../limits/callers.ts'

/** How often the local copy is pruned, and compared with the store until that has succeeded. */
const COMPARE_EVERY = 60_000

declare module 'fastify' {
  interface FastifyInstance {
    readonly holdings: Holdings
    readonly issuance: Issuance
  }
}

export interface IssuanceOptions extends Pick<CertServiceConfig, 'storage'> {
  readonly limits: CertServiceConfig['limits']
  /** How long a caller waits at most, in milliseconds. */
  readonly wait: number
  readonly random: () => number
}

/** Issues certificates within the limits of callers, and answers those that are held. */
export const issuance = fp<IssuanceOptions>(
  async (app: FastifyInstance, { limits, wait, random, storage: { url, cachePath } }) => {
    const { store, keyring, issuers, audit, events, clock, log, certMetrics } = app
    const isCopied = url !== undefined && cachePath !== undefined
    const { slot } = app.workers
    const handedOut = isCopied ? new HandedOut({ folder: cachePath, slot, clock }) : undefined
    const holdings = new Holdings({ store, keyring, clock, handedOut })
    const callers = new Callers(limits, app)
    const parts = { store, keyring, issuers, audit, events, clock, log, certMetrics }
    // Revocations by other replicas are among the changes.
    store.onChange(({ isUrgent }) => {
      if (isUrgent) app.ca.crls.outdate()
    })
    const issuance = new Issuance({ ...parts, holdings, callers, wait, random })
    app.addHook('preClose', async () => issuance.stopWaiting())
    app.addHook('onClose', async () => {
      await issuance.close()
      handedOut?.close()
    })
    if (handedOut)
      app.loops.add(COMPARE_EVERY, () => handedOut.verify(store), 'the local copy was not compared')
    app.onReload<CertServiceConfig>((config) => () => {
      callers.limits = config.limits
    })
    app.decorate('holdings', holdings)
    app.decorate('issuance', issuance)
  },
  {
    fastify: '5.x',
    name: 'cert-service/issuance',
    dependencies: [
      'cert-service/issuers',
      'cert-service/audit',
      'cert-service/events',
      'cert-service/loops',
      'service-kit/reload',
      'service-kit/workers',
      'cert-service/store',
      'service-kit/clock',
      'cert-service/metrics',
    ],
  },
)
