import { X509Certificate } from 'node:crypto'
import { type IssuersOptions, type OpenedIssuers, openIssuers } from '@gatehouse/issuance/issuers'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { VERSION } from '../version.ts'

// The types of app.ts take it from here, and so know what is declared below.
export type { IssuersOptions }

declare module 'fastify' {
  interface FastifyInstance {
    readonly ca: OpenedIssuers['ca']
    readonly challenges: OpenedIssuers['challenges']
    readonly issuers: OpenedIssuers['issuers']
    readonly ledger: OpenedIssuers['ledger']
  }
}

/** Opens the embedded CA and the ACME issuers. @throws IssuanceError CERT_ROOT_KEY_ABSENT; PkiError PKI_CA_… */
export const issuers = fp<IssuersOptions>(
  async (app: FastifyInstance, options) => {
    const { store, keyring, clock, log } = app
    const userAgent = `gatehouse-cert-service/${VERSION}`
    const orders = app.certMetrics?.orders
    const opened = await openIssuers(options, { store, keyring, clock, log, userAgent, orders })
    const root = opened.ca.root()
    if (root) {
      const { subject, fingerprint256 } = new X509Certificate(root)
      log.info({ subject, fingerprint256 }, 'the embedded CA uses this root')
    }
    app.addHook('onClose', async () => opened.close())
    app.decorate('ca', opened.ca)
    app.decorate('challenges', opened.challenges)
    app.decorate('ledger', opened.ledger)
    app.decorate('issuers', opened.issuers)
  },
  {
    name: 'cert-service/issuers',
    dependencies: ['cert-service/store', 'cert-service/metrics', 'service-kit/clock'],
  },
)
