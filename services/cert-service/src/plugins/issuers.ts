import { X509Certificate } from 'node:crypto'
import type { ChallengeStore } from '@gatehouse/acme'
import { parseNameRule } from '@gatehouse/pki'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { loadClaims } from '../config/claims.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { createIssuers, type Issuers } from '../issuance/request.ts'
import { createChallengeStore } from '../issuers/acme/challenges.ts'
import { type AcmeDeps, openAcmeIssuers } from '../issuers/acme/issuer.ts'
import { type Ca, openCa } from '../issuers/ca.ts'
import type { Issuer } from '../issuers/issuer.ts'
import { Ledger } from '../limits/ledger.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly ca: Ca
    /** The configured issuers and the embedded CA. */
    readonly issuers: Issuers
    /** Responses to the challenges of CAs. */
    readonly challenges: ChallengeStore
    /** The limits of CAs. */
    readonly ledger: Ledger
  }
}

export interface IssuersOptions {
  readonly ca: CertServiceConfig['ca']
  readonly issuers: CertServiceConfig['issuers']
  /** The issuer of all that no configured issuer signs; default: the embedded CA. */
  readonly fallback?: ((ca: Ca) => Issuer) | undefined
  /** Default: by the type of the challenge. */
  readonly createSolver?: AcmeDeps['createSolver']
}

/** Opens the embedded CA and the ACME issuers. @throws CertError CERT_ROOT_KEY_ABSENT; PkiError PKI_CA_… */
export const issuers = fp<IssuersOptions>(
  async (app: FastifyInstance, { ca: caConfig, issuers: configs, fallback, createSolver }) => {
    const { store, keyring, clock, log } = app
    const permitted = caConfig.permitted.map(parseNameRule)
    const ca = await openCa({ ...caConfig, permitted }, app)
    logRoot(app, ca)
    const challenges = createChallengeStore(store, clock)
    const orders = app.certMetrics?.orders
    const ledger = await Ledger.open({ issuers: configs, store, now: clock.now, log, orders })
    const deps = { store, keyring, challenges, limits: ledger, clock, log, createSolver }
    const acme = await openAcmeIssuers(configs, deps)
    app.addHook('onClose', async () => acme.close())
    app.decorate('ca', ca)
    app.decorate('challenges', challenges)
    app.decorate('ledger', ledger)
    // The names in `ca.permitted` are explicitly for the embedded CA.
    const hasClaims = configs.length > 0 && permitted.length === 0
    const claimOf = hasClaims ? await loadClaims(configs) : undefined
    app.decorate('issuers', createIssuers(acme.issuers, fallback?.(ca) ?? ca, claimOf))
  },
  {
    fastify: '5.x',
    name: 'cert-service/issuers',
    dependencies: ['cert-service/store', 'cert-service/metrics', 'service-kit/clock'],
  },
)

function logRoot({ log }: FastifyInstance, ca: Ca): void {
  const root = ca.root()
  if (!root) return
  const { subject, fingerprint256 } = new X509Certificate(root)
  log.info({ subject, fingerprint256 }, 'the root of the embedded CA')
}
