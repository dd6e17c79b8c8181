import auth, { type Caller } from '@gatehouse/auth-core'
import { type Name, parseName } from '@gatehouse/pki'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { domainsClaimOf, keyRightsOf, pluginOptionsOf, takesTokens } from '../config/auth.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import { createPolicy, isOpenToTokens, type Policy, type Right } from '../policy.ts'
import type { CertificateRecord } from '../store/store.ts'
import type { Requester } from './audit.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The policy of the configuration in effect. */
    policy(): Policy
  }
}

type Configured = Pick<CertServiceConfig, 'auth' | 'rules'>

export interface AccessOptions extends Configured {
  /** Measures the age of token keys; default: the run time of the process. */
  readonly elapsed?: (() => number) | undefined
}

/** Authenticates callers, and decides what they may do with which names. */
export const access = fp<AccessOptions>(
  async (app: FastifyInstance, { elapsed, ...configured }) => {
    await app.register(auth, {
      ...pluginOptionsOf(configured.auth),
      now: app.clock.now,
      ...(elapsed && { elapsed }),
      log: app.log,
    })
    let policy = policyOf(configured)
    warnIfOpen(app, configured)
    app.decorate('policy', () => policy)
    app.addHealthCheck(() => ({
      degraded: app.callers.status().degraded.map((issuer) => `issuer ${issuer}`),
    }))
    app.onReload<CertServiceConfig>((config) => {
      const nextPolicy = policyOf(config)
      const commitCallers = app.callers.prepare(pluginOptionsOf(config.auth))
      return () => {
        policy = nextPolicy
        commitCallers()
        warnIfOpen(app, config)
      }
    })
  },
  {
    fastify: '5.x',
    name: 'cert-service/access',
    dependencies: ['service-kit/clock', 'service-kit/health', 'service-kit/reload'],
  },
)

function policyOf({ auth, rules }: Configured): Policy {
  return createPolicy({ domainsClaim: domainsClaimOf(auth), keyRights: keyRightsOf(auth), rules })
}

function warnIfOpen({ log }: FastifyInstance, { auth, rules }: Configured): void {
  if (takesTokens(auth) && isOpenToTokens({ domainsClaim: domainsClaimOf(auth), rules }))
    log.warn({}, 'every token may have every name: neither a domainsClaim nor rules are configured')
}

/** The caller as the audit trail writes it. */
export function requesterOf(request: FastifyRequest): Requester {
  const { caller, ip, id } = request
  const isOperator = caller.method === 'psk' && !caller.domains
  return { actor: actorOf(caller), remoteAddress: ip, requestId: id, isOperator }
}

/** The caller for the line of a request; undefined if the route has no guard or refused the caller. */
export function logFields({ optionalCaller }: FastifyRequest): { caller: string | undefined } {
  return { caller: optionalCaller ? actorOf(optionalCaller) : undefined }
}

function actorOf(caller: Caller): string {
  return caller.method === 'psk'
    ? `psk:${caller.subject}`
    : `jwt:${caller.issuer}#${caller.subject}`
}

/**
 * Refuses what the caller may not do with one of the names, and records the refusal.
 *
 * @throws CertError `CERT_NAME_NOT_ALLOWED`
 */
export function authorize(request: FastifyRequest, right: Right, names: readonly Name[]): void {
  const { policy, audit } = request.server
  const decision = policy()(request.caller, right, names)
  if (decision.allowed) return
  const { name, reason } = decision
  audit.recordRefusal(requesterOf(request), [name.text], 'CERT_NAME_NOT_ALLOWED')
  const detail = `${right} is not granted for ${name.text}: ${reason}`
  throw new CertError('CERT_NAME_NOT_ALLOWED', detail)
}

/** Whether the caller may do this with every name of something that is stored. */
export function mayAll(
  app: FastifyInstance,
  caller: Caller,
  right: Right,
  { names }: Pick<CertificateRecord, 'names'>,
): boolean {
  return app.policy()(caller, right, names.map(parseName)).allowed
}
