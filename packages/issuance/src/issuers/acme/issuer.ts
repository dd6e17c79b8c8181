import {
  AcmeError,
  type ChallengeStore,
  createRetryBudget,
  fetchRenewalInfo,
  renewalId,
  revokeCertificate,
  type Solver,
} from '@gatehouse/acme'
import { createFetch } from '@gatehouse/net'
import {
  type Csr,
  compileRules,
  fromPem,
  type Name,
  parseCertificate,
  parseNameRule,
  type RevocationReason,
} from '@gatehouse/pki'
import {
  ACME_KEY_TYPES,
  accountOf,
  type ChallengeConfig,
  canProve,
  digestOf,
  directoryOf,
  type IssuerConfig,
} from '../../options/issuers.ts'
import type { Issuer, SignedCertificate } from '../issuer.ts'
import { createSolver } from './challenges.ts'
import { type AcmeIssuerDeps, obtainChain } from './order.ts'
import { type AcmeServer, type AcmeServerDeps, openAcmeServer } from './server.ts'

export interface AcmeDeps extends AcmeServerDeps {
  readonly challenges: ChallengeStore
  /** Replaces the solver of a challenge in tests. */
  readonly createSolver?: ((challenge: ChallengeConfig) => Solver) | undefined
}

/** The configured ACME issuers. No CA is contacted before there is an order for it. */
export function openAcmeIssuers(configs: readonly IssuerConfig[], deps: AcmeDeps) {
  const { clock, challenges } = deps
  const fetch = createFetch()
  const servers = new Map<string, AcmeServer>()
  const solverOf =
    deps.createSolver ?? ((challenge) => createSolver(challenge, challenges, { fetch, clock }))
  const issuers: Issuer[] = []
  for (const config of configs) {
    const account = accountOf(config)
    const server = servers.get(account) ?? openAcmeServer(config, deps)
    servers.set(account, server)
    const solvers = config.challenges.map(solverOf)
    issuers.push(createAcmeIssuer(config, { ...deps, server, solvers }))
  }
  return {
    issuers,
    async close() {
      await Promise.all([fetch, ...servers.values()].map((resource) => resource.close()))
    },
  }
}

export function createAcmeIssuer(config: IssuerConfig, deps: AcmeIssuerDeps): Issuer {
  const { name, profile, keyType, fallback } = config
  const { server } = deps
  const directory = directoryOf(config.directory)
  return {
    name,
    profile: profile === undefined ? directory : `${directory} ${profile}`,
    keyType,
    keyTypes: ACME_KEY_TYPES,
    fallback,
    configuration: digestOf(config),
    permits: compileRules(config.names.map(parseNameRule)),
    objection: (names, csr) => objectionTo(names, csr, config),
    accountUrl: () => server.account.url(),
    solverFor: ({ kind }) =>
      deps.solvers.find((solver) => canProve({ challenges: [solver] }, kind)),
    authorize: async (request, io) => void (await obtainChain(request, io, config, deps)),
    issue: async (request, io) => toIssued(await obtainChain(request, io, config, deps)),
    revoke: (certificate, reason) => revoke(certificate, reason, deps),
    async renewalInfo(certificate, signal) {
      const id = renewalId(certificate)
      return id === undefined ? undefined : fetchRenewalInfo(server.transport, id, signal)
    },
    degraded: () => (server.isReachable() ? [] : [`issuer ${name}`]),
  }
}

function objectionTo(names: readonly Name[], csr: Csr | null, config: IssuerConfig) {
  const unproven = names.find(({ kind }) => !canProve(config, kind))
  if (unproven)
    return `${unproven.text} cannot be proven by a challenge of the issuer ${config.name}`
  const requested = csr && new Set(csr.names.map(({ text }) => text))
  const missing = requested ? names.find(({ text }) => !requested.has(text)) : undefined
  if (!missing) return undefined
  return `the CSR lacks ${missing.text}, and the issuer ${config.name} adds no names`
}

/** The time for which a revocation is retried, in ms: somebody waits for it. */
const REVOKE_MS = 5_000

async function revoke(
  certificate: Uint8Array,
  reason: RevocationReason,
  { server, clock }: AcmeIssuerDeps,
): Promise<'revoked' | 'unknown'> {
  const retries = createRetryBudget(REVOKE_MS, { clock })
  for (;;) {
    try {
      const account = await server.account.get()
      await server.transport.send(revokeCertificate(certificate, reason), account)
      return 'revoked'
    } catch (error) {
      if (error instanceof AcmeError && error.code === 'ACME_ALREADY_REVOKED') return 'revoked'
      if (await retries.waitAfter(error)) continue
      if (isUnknownCertificate(error)) return 'unknown'
      throw error
    }
  }
}

/** RFC 8555 has no type for it: CAs answer `malformed`, with status 404 or an explanation. */
function isUnknownCertificate(error: unknown): boolean {
  if (!(error instanceof AcmeError) || error.problem?.type !== 'malformed') return false
  const { status, detail } = error.problem
  const saysSo = /no such|unknown|unable to find|not find|not found/i.test(detail)
  return status === 404 || (/certificate/i.test(detail) && saysSo)
}

function toIssued(pem = ''): SignedCertificate {
  const [certificate = Buffer.alloc(0), ...chain] = fromPem(pem, 'CERTIFICATE')
  const { serialNumber, notBefore, notAfter } = parseCertificate(certificate)
  return { certificate, chain, serialNumber, notBefore, notAfter }
}
