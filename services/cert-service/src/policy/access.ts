import auth from '@gatehouse/auth-core'
import type { ServedAccount } from '@gatehouse/cert-store/port'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type AccessConfig, domainsClaimOf, pluginOptionsOf, takesTokens } from '../config/auth.ts'
import { certificateCallersOf } from '../config/certificate-callers.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { createPolicy, isOpenToTokens, type Policy, type Program } from './rules.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The policy of the configuration in effect. */
    readonly policy: Policy
  }
  interface FastifyRequest {
    /** Whether this delivers a certificate again in the same hour, which the audit trail only counts. */
    isRepeated: boolean
    /** The program that another guard than those of auth-core has found: by its certificate, or its ACME account. */
    proven: Program | null
    /** The ACME account that has signed the request. */
    acmeAccount: ServedAccount | null
  }
}

export interface AccessOptions extends AccessConfig {
  /** Measures the age of token keys; default: the run time of the process. */
  readonly elapsed?: (() => number) | undefined
}

/** Authenticates callers, and decides what they may do with which names. */
export const access = fp<AccessOptions>(
  async (app: FastifyInstance, { elapsed, ...configured }) => {
    await app.register(auth, {
      ...pluginOptionsOf(configured.auth),
      limitsPublicIssuers: true,
      now: app.clock.now,
      ...(elapsed && { elapsed }),
      log: app.log,
    })
    app.decorateRequest('isRepeated', false)
    app.decorateRequest('proven', null)
    app.decorateRequest('acmeAccount', null)
    await app.decorateReloaded('policy', configured, policyOf)
    warnIfOpen(app, configured)
    app.addHealthCheck(() => ({
      degraded: app.callers.status().degraded.map((issuer) => `issuer ${issuer}`),
    }))
    app.onReload<CertServiceConfig>((config) => {
      const commitCallers = app.callers.prepare(pluginOptionsOf(config.auth))
      return () => {
        commitCallers()
        warnIfOpen(app, config)
      }
    })
  },
  {
    name: 'cert-service/access',
    dependencies: ['service-kit/clock', 'service-kit/health', 'service-kit/reload'],
  },
)

function policyOf({ auth, rules }: AccessConfig): Policy {
  return createPolicy({
    domainsClaim: domainsClaimOf(auth),
    keys: new Map(auth.psk?.keys?.map((key) => [key.name, key])),
    certificateCallers: certificateCallersOf(auth.mtls),
    rules,
  })
}

function warnIfOpen({ log }: FastifyInstance, { auth, rules }: AccessConfig): void {
  if (takesTokens(auth) && isOpenToTokens({ domainsClaim: domainsClaimOf(auth), rules }))
    log.warn({}, 'every token may have every name: neither a domainsClaim nor rules are configured')
}
