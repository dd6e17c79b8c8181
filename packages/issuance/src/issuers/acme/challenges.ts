import { once } from 'node:events'
import type { Server } from 'node:net'
import {
  type ChallengeStore,
  createDns01,
  createDnsProviders,
  createHttp01,
  createHttp01Server,
  createTlsAlpn01,
  createTlsAlpn01Server,
  type DnsProviderDeps,
  type Solver,
} from '@gatehouse/acme'
import type { Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { listenError } from '@gatehouse/service-kit/lifecycle'
import type { ChallengeConfig, IssuerConfig } from '../../options/issuers.ts'

/** Keeps responses to challenges in the store, so that they outlive the process. */
export function createChallengeStore(store: Store, clock: Pick<Clock, 'now'>): ChallengeStore {
  return {
    put: (key, value) => store.putChallenge(key, value, clock.now()),
    get: (key) => store.findChallenge(key),
    delete: (key) => store.deleteChallenge(key),
  }
}

export function createSolver(
  challenge: ChallengeConfig,
  challenges: ChallengeStore,
  deps: DnsProviderDeps,
): Solver {
  if (challenge.type === 'http-01') return createHttp01(challenges)
  if (challenge.type === 'tls-alpn-01') return createTlsAlpn01(challenges)
  const { providers, propagation } = challenge
  const { clock } = deps
  return createDns01({ providers: createDnsProviders(providers, deps), propagation, clock })
}

/** Starts the listeners for the challenges of the issuers; issuers can share one. */
export async function listenForChallenges(
  issuers: readonly Pick<IssuerConfig, 'challenges'>[],
  challenges: ChallengeStore,
  clock: Pick<Clock, 'now'>,
): Promise<{ close(): void }> {
  const servers = new Map<string, Server>()
  const close = () => {
    for (const server of servers.values()) server.close()
  }
  try {
    for (const challenge of issuers.flatMap((issuer) => issuer.challenges)) {
      if (challenge.type === 'dns-01' || !challenge.listen) continue
      const { host, port } = challenge.listen
      const key = `${challenge.type} ${host} ${port}`
      if (servers.has(key)) continue
      const isHttp = challenge.type === 'http-01'
      const server = isHttp
        ? createHttp01Server(challenges)
        : createTlsAlpn01Server(challenges, clock)
      servers.set(key, server)
      await once(server.listen({ host, port }), 'listening').catch((error: unknown) => {
        throw listenError(error, { host, port })
      })
    }
  } catch (error) {
    close()
    throw error
  }
  return { close }
}
