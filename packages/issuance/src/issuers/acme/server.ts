import { createTransport, type Transport } from '@gatehouse/acme'
import type { Keyring } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import { type BoundedFetch, type Clock, createFetch, NetError } from '@gatehouse/net'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { Ledger } from '../../limits/ledger.ts'
import { accountOf, directoryOf, type IssuerConfig } from '../../options/issuers.ts'
import { AcmeAccount } from './account.ts'

/** One account at a CA, shared by the issuers that use it. */
export interface AcmeServer {
  /** URL. */
  readonly directory: string
  readonly transport: Transport
  readonly account: AcmeAccount
  /** Whether the last request was answered. */
  isReachable(): boolean
  /**
   * Runs the orders for one set of names in sequence: the CA would give all of them the same order,
   * while each has a key of its own.
   */
  inTurn<T>(names: string, run: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface AcmeServerDeps {
  readonly store: Store
  readonly keyring: Keyring
  readonly clock: Clock
  readonly limits: Ledger
  /** The name of this service for CAs. */
  readonly userAgent: string
  readonly log: { info(fields: object, message: string): void }
}

export async function openAcmeServer(
  config: IssuerConfig,
  { store, keyring, clock, limits, userAgent, log }: AcmeServerDeps,
): Promise<AcmeServer> {
  const directory = directoryOf(config.directory)
  const ca =
    config.caFile === undefined
      ? {}
      : { ca: requireNamedFile(`the caFile of the issuer ${config.name}`, config.caFile) }
  const { fetch, isReachable } = watch(createFetch(ca))
  const transport = createTransport({ directoryUrl: new URL(directory), fetch, clock, userAgent })
  const account = new AcmeAccount({
    ...config,
    id: accountOf(config),
    directory,
    transport,
    store,
    keyring,
    limits,
    log,
  })
  const last = new Map<string, Promise<unknown>>()

  async function inTurn<T>(names: string, run: () => Promise<T>): Promise<T> {
    const turn = Promise.resolve(last.get(names)).then(run, run)
    last.set(names, turn)
    try {
      return await turn
    } finally {
      if (last.get(names) === turn) last.delete(names)
    }
  }

  return { directory, transport, account, isReachable, inTurn, close: () => fetch.close() }
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
