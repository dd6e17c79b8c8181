import {
  AcmeError,
  createRetryBudget,
  fetchRenewalInfo,
  renewalId,
  revokeCertificate,
  type Solver,
} from '@gatehouse/acme'
import {
  compileRules,
  fromPem,
  parseCertificate,
  parseNameRule,
  type RevocationReason,
} from '@gatehouse/pki'
import type { Clock } from '@gatehouse/service-kit'
import { canProve } from '../../config/check-issuers.ts'
import { ACME_KEY_TYPES, type IssuerConfig } from '../../config/issuers.ts'
import type { Store } from '../../store/store.ts'
import type { Issued, Issuer } from '../issuer.ts'
import type { IssuanceLimits } from './limits.ts'
import { obtainChain } from './obtain-chain.ts'
import type { AcmeServer } from './server.ts'

export interface AcmeIssuerDeps {
  readonly server: AcmeServer
  /** In the order in which they are preferred. */
  readonly solvers: readonly Solver[]
  readonly store: Pick<Store, 'findOrderByUrl'>
  readonly limits: IssuanceLimits
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
}

/** An issuer that orders at a CA by ACME. */
export function createAcmeIssuer(config: IssuerConfig, deps: AcmeIssuerDeps): Issuer {
  const { name, profile, keyType, fallback } = config
  const { server } = deps
  const permits = compileRules(config.names.map(parseNameRule))
  return {
    name,
    profile: profile === undefined ? server.directory : `${server.directory} ${profile}`,
    keyType,
    keyTypes: ACME_KEY_TYPES,
    fallback,
    permits,
    objection(names, csr) {
      const unproven = names.find(({ kind }) => !canProve(config, kind))
      if (unproven) return `${unproven.text} cannot be proven by a challenge of the issuer ${name}`
      const own = csr && new Set(csr.names.map(({ text }) => text))
      const missing = own ? names.find(({ text }) => !own.has(text)) : undefined
      if (missing) return `the CSR lacks ${missing.text}, and the issuer ${name} adds no names`
      return undefined
    },
    accountUrl: () => server.account.url(),
    solverFor: ({ kind }) =>
      deps.solvers.find((solver) => canProve({ challenges: [solver] }, kind)),
    issue: async (request, io) => toIssued(await obtainChain(request, io, config, deps)),
    revoke: (certificate, reason) => revoke(certificate, reason, deps),
    async renewalInfo(certificate, signal) {
      const id = renewalId(certificate)
      return id === undefined ? undefined : fetchRenewalInfo(server.transport, id, signal)
    },
    degraded: () => (server.isReachable() ? [] : [`issuer ${name}`]),
  }
}

/** How long faults of a CA are put up with while somebody waits for a revocation. */
const REVOKE_MS = 5_000

async function revoke(
  certificate: Uint8Array,
  reason: RevocationReason,
  { server, clock }: AcmeIssuerDeps,
): Promise<'revoked' | 'unknown'> {
  const patience = createRetryBudget(REVOKE_MS, { clock })
  for (;;) {
    try {
      const account = await server.account.get()
      await server.transport.send(revokeCertificate(certificate, reason), account)
      return 'revoked'
    } catch (error) {
      if (error instanceof AcmeError && error.code === 'ACME_ALREADY_REVOKED') return 'revoked'
      if (await patience.waitAfter(error)) continue
      if (isUnknownCertificate(error)) return 'unknown'
      throw error
    }
  }
}

/** RFC 8555 has no type for it: CAs say `malformed`, with status 404 or in words. */
function isUnknownCertificate(error: unknown): boolean {
  if (!(error instanceof AcmeError) || error.problem?.type !== 'malformed') return false
  const { status, detail } = error.problem
  return (
    status === 404 ||
    /(no such|unknown|unable to find|not find|not found).*certificate|certificate.*(unknown|not found)/i.test(
      detail,
    )
  )
}

function toIssued(pem: string): Issued {
  const [certificate = Buffer.alloc(0), ...chain] = fromPem(pem, 'CERTIFICATE')
  const { serialNumber, notBefore, notAfter } = parseCertificate(certificate)
  return { certificate, chain, serialNumber, notBefore, notAfter }
}
