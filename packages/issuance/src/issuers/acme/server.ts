import { createTransport } from '@gatehouse/acme'
import type { Keyring } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import { type BoundedFetch, type Clock, createFetch, createTurns, NetError } from '@gatehouse/net'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { Ledger } from '../../limits/ledger.ts'
import { directoryOf, type IssuerConfig } from '../../options/issuers.ts'
import { AcmeAccount } from './account.ts'

export interface AcmeServerDeps {
  readonly store: Store
  readonly keyring: Keyring
  readonly clock: Clock
  readonly limits: Ledger
  /** The name of this service for CAs. */
  readonly userAgent: string
  readonly log: Record<'info' | 'warn', (fields: object, message: string) => void>
}

/** An account at a CA, shared by the issuers that use it. */
export type AcmeServer = ReturnType<typeof openAcmeServer>

export function openAcmeServer(config: IssuerConfig, deps: AcmeServerDeps) {
  const { clock, userAgent } = deps
  const { name, caFile } = config
  const ca = caFile && requireNamedFile(`the caFile of the issuer ${name}`, caFile)
  const { fetch, isReachable } = watch(createFetch({ ca }))
  const directoryUrl = new URL(directoryOf(config.directory))
  const transport = createTransport({ directoryUrl, fetch, clock, userAgent })
  return {
    transport,
    account: new AcmeAccount({ ...config, ...deps, transport }),
    /** Whether the last request was answered. */
    isReachable,
    /**
     * Runs the orders for one set of names in sequence: the CA would give all of them the same order,
     * while each has a key of its own.
     */
    inTurn: createTurns(),
    close: () => fetch.close(),
  }
}

const UNREACHABLE: readonly unknown[] = ['NET_FETCH_FAILED', 'NET_FETCH_TIMEOUT']

function watch(fetch: BoundedFetch) {
  let reachable = true
  const watched: BoundedFetch = Object.assign(
    async (...[url, init]: Parameters<BoundedFetch>) => {
      try {
        const answer = await fetch(url, init)
        reachable = true
        return answer
      } catch (error) {
        const isAborted = init?.signal?.aborted
        if (!isAborted && error instanceof NetError) reachable = !UNREACHABLE.includes(error.code)
        throw error
      }
    },
    { close: () => fetch.close() },
  )
  return { fetch: watched, isReachable: () => reachable }
}
