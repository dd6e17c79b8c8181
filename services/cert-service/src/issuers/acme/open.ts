import type { ChallengeStore, Solver } from '@gatehouse/acme'
import { createFetch } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit'
import { accountOf, type ChallengeConfig, type IssuerConfig } from '../../config/issuers.ts'
import type { Keyring } from '../../sealing/keyring.ts'
import type { Store } from '../../store/store.ts'
import type { Issuer } from '../issuer.ts'
import { createSolver } from './challenges.ts'
import { createAcmeIssuer } from './issuer.ts'
import type { IssuanceLimits } from './limits.ts'
import { type AcmeServer, openAcmeServer } from './server.ts'

export interface AcmeDeps {
  readonly store: Store
  readonly keyring: Keyring
  readonly challenges: ChallengeStore
  readonly limits: IssuanceLimits
  readonly clock: Clock
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
  /** Makes a solver in place of the one for the challenge; for tests. */
  readonly createSolver?: ((challenge: ChallengeConfig) => Solver) | undefined
}

/** The ACME issuers of the configuration; none of them asks its CA before it has an order. */
export async function openAcmeIssuers(
  configs: readonly IssuerConfig[],
  deps: AcmeDeps,
): Promise<{ readonly issuers: readonly Issuer[]; close(): Promise<void> }> {
  const { clock, challenges } = deps
  const fetch = createFetch()
  const servers = new Map<string, AcmeServer>()
  const make =
    deps.createSolver ?? ((challenge) => createSolver(challenge, challenges, { fetch, clock }))
  const issuers: Issuer[] = []
  for (const config of configs) {
    const account = accountOf(config)
    const server = servers.get(account) ?? (await openAcmeServer(config, deps))
    servers.set(account, server)
    issuers.push(
      createAcmeIssuer(config, { ...deps, server, solvers: config.challenges.map(make) }),
    )
  }
  return {
    issuers,
    async close() {
      await Promise.all([fetch, ...servers.values()].map((one) => one.close()))
    },
  }
}
