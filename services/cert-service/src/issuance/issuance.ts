import { Callers, Holdings, Issuance } from '@gatehouse/issuance'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly holdings: Holdings
    readonly issuance: Issuance
    readonly callerLimits: Callers
  }
}

export interface IssuanceOptions extends Pick<CertServiceConfig, 'limits' | 'issuance'> {
  readonly random: () => number
}

/** Issues certificates within the limits of callers, and answers those that are held. */
export const issuance = fp<IssuanceOptions>(
  async (app: FastifyInstance, { limits, issuance: { wait }, random }) => {
    const { store, keyring, issuers, audit, certEvents, clock, log, certMetrics: metrics } = app
    const holdings = new Holdings({ store, keyring, clock })
    const callers = new Callers(limits, { store, clock, log })
    const deps = { store, keyring, issuers, audit, events: certEvents, clock, log, metrics }
    // Revocations and the stages of a roll by other replicas are among the changes.
    store.onChange(async ({ isUrgent }) => {
      if (!isUrgent) return
      app.ca.crls.outdate()
      await app.ca.track()
    })
    const issuance = new Issuance({ ...deps, holdings, callers, wait, random })
    app.addHook('preClose', async () => issuance.stopWaiting())
    app.addHook('onClose', async () => issuance.close())
    app.onReload<CertServiceConfig>((config) => () => {
      callers.limits = config.limits
    })
    app.decorate('holdings', holdings)
    app.decorate('issuance', issuance)
    app.decorate('callerLimits', callers)
  },
  {
    name: 'cert-service/issuance',
    dependencies: [
      'cert-service/issuers',
      'cert-service/audit',
      'cert-service/events',
      'service-kit/reload',
      'cert-service/store',
      'service-kit/clock',
      'cert-service/metrics',
    ],
  },
)
