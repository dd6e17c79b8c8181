import { createTransport, type Transport } from '@gatehouse/acme'
import { type BoundedFetch, type Clock, createFetch, NetError } from '@gatehouse/net'
import { requireNamedFile } from '@gatehouse/service-kit'
import { accountOf, directoryOf, type IssuerConfig } from '../../config/issuers.ts'
import type { Keyring } from '../../sealing/keyring.ts'
import type { Store } from '../../store/store.ts'
import { VERSION } from '../../version.ts'
import { type Account, createAccount } from './account.ts'
import type { IssuanceLimits } from './limits.ts'

/** One CA, shared by all issuers with its directory. */
export interface AcmeServer {
  /** URL. */
  readonly directory: string
  readonly transport: Transport
  readonly account: Account
  /** Whether the last request got an answer. */
  isReachable(): boolean
  /**
   * Runs the orders for one set of names one after another: the CA gives the same order to all of
   * them, while each has a key of its own.
   */
  inTurn<T>(names: string, run: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface AcmeServerDeps {
  readonly store: Store
  readonly keyring: Keyring
  readonly clock: Clock
  readonly limits: IssuanceLimits
  readonly log: { info(fields: object, message: string): void }
}

export async function openAcmeServer(
  config: IssuerConfig,
  { store, keyring, clock, limits, log }: AcmeServerDeps,
): Promise<AcmeServer> {
  const directory = directoryOf(config.directory)
  const ca =
    config.caFile === undefined
      ? {}
      : { ca: requireNamedFile(`the caFile of the issuer ${config.name}`, config.caFile) }
  const { fetch, isReachable } = watch(createFetch(ca))
  const userAgent = `gatehouse-cert-service/${VERSION}`
  const transport = createTransport({ directoryUrl: new URL(directory), fetch, clock, userAgent })
  const id = accountOf(config)
  const account = createAccount({
    ...config,
    id,
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

const UNREACHED: readonly unknown[] = ['NET_FETCH_FAILED', 'NET_FETCH_TIMEOUT']

function watch(fetch: BoundedFetch) {
  let reachable = true
  const watched: BoundedFetch = Object.assign(
    async (...[url, init]: Parameters<BoundedFetch>) => {
      try {
        const answer = await fetch(url, init)
        reachable = true
        return answer
      } catch (error) {
        const isOurs = init?.signal?.aborted
        if (!isOurs && error instanceof NetError) reachable = !UNREACHED.includes(error.code)
        throw error
      }
    },
    { close: () => fetch.close() },
  )
  return { fetch: watched, isReachable: () => reachable }
}
