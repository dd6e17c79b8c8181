import { parseNameRule } from '@gatehouse/pki'
import { createChallengeStore } from './issuers/acme/challenges.ts'
import { type AcmeDeps, openAcmeIssuers } from './issuers/acme/issuer.ts'
import { type AcmeServerDeps, openAcmeServer } from './issuers/acme/server.ts'
import { type Ca, openCa } from './issuers/ca.ts'
import type { Issuer } from './issuers/issuer.ts'
import { Ledger, type LedgerDeps } from './limits/ledger.ts'
import type { CaConfig } from './options/ca.ts'
import { loadClaims } from './options/claims.ts'
import { digestOf, type IssuerConfig } from './options/issuers.ts'
import { createIssuers } from './request.ts'

export { listenForChallenges } from './issuers/acme/challenges.ts'
export { loadOwnAuthority } from './issuers/authority-rows.ts'
export type { Ca } from './issuers/ca.ts'
export type { Issuer, SignedCertificate as Issued } from './issuers/issuer.ts'
export { nextStep, rootsAt } from './issuers/roll.ts'
export type { Budget, Ledger } from './limits/ledger.ts'

export interface IssuersOptions {
  readonly ca: CaConfig
  readonly issuers: readonly IssuerConfig[]
  /** The issuer of all that no configured issuer signs; default: the embedded CA. */
  readonly fallback?: ((ca: Ca) => Issuer) | undefined
  /** Default: by the type of the challenge. */
  readonly createSolver?: AcmeDeps['createSolver']
}

export interface IssuersDeps extends Omit<AcmeServerDeps, 'limits'> {
  /** Counts the orders that are placed at CAs. */
  readonly orders?: LedgerDeps['orders']
}

/** The embedded CA, the issuers with it, responses to the challenges of CAs, and the limits of CAs. */
export type OpenedIssuers = Awaited<ReturnType<typeof openIssuers>>

/** Opens the embedded CA and the ACME issuers. @throws IssuanceError CERT_ROOT_KEY_ABSENT; PkiError PKI_CA_… */
export async function openIssuers(
  { ca: caConfig, issuers: configs, fallback, createSolver }: IssuersOptions,
  { orders, ...deps }: IssuersDeps,
) {
  const { store, clock, log } = deps
  const permitted = caConfig.permitted.map(parseNameRule)
  const configuration = digestOf(caConfig)
  const ca = await openCa({ ...caConfig, permitted, configuration }, deps)
  const challenges = createChallengeStore(store, clock)
  const ledger = await Ledger.open({ issuers: configs, store, now: clock.now, log, orders })
  const acme = openAcmeIssuers(configs, { ...deps, challenges, limits: ledger, createSolver })
  // The names in `ca.permitted` are explicitly for the embedded CA.
  const hasClaims = configs.length > 0 && permitted.length === 0
  const claimOf = hasClaims ? await loadClaims(configs) : undefined
  const issuers = createIssuers(acme.issuers, fallback?.(ca) ?? ca.servers, claimOf, ca.clients)
  return { ca, issuers, challenges, ledger, close: acme.close }
}

/** Gives the account of an issuer another key (RFC 8555 section 7.3.5). @throws AcmeError */
export async function rolloverAccount(
  config: IssuerConfig,
  issuers: readonly IssuerConfig[],
  { store, clock, log, ...deps }: IssuersDeps,
): Promise<void> {
  const limits = await Ledger.open({ issuers, store, now: clock.now, log })
  const server = openAcmeServer(config, { ...deps, store, clock, log, limits })
  await server.account.rollover().finally(server.close)
}
