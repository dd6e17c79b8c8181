// An ACME client of cert-service: orders and renews, and after each error goes on from its saved state.
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createOrder,
  createTransport,
  isOver,
  newAccount,
  type OrderState,
  renewalId,
  step,
  type Transport,
} from '@gatehouse/acme'
import { type BoundedFetch, NetError } from '@gatehouse/net'
import { buildCsr, fromPem, generateP256, parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { plainSerial } from './acme-ca.ts'
import { send, type Target } from './client.ts'
import type { Journal } from './journal.ts'
import { CLIENT_PREFIX } from './oracle/orders.ts'
import type { Random } from './random.ts'
import { API_KEY, CERT_PORT } from './replicas.ts'

const CLIENTS = 6
/** How the clients name the service, whichever replica they ask. */
const HOST = `127.0.0.1:${CERT_PORT}`
const RETRY_MS = 500
const PAUSE_MS = 3_000

export class AcmeClients {
  readonly #journal: Journal
  readonly #random: Random
  readonly #targets: readonly Target[]

  constructor(journal: Journal, random: Random, targets: readonly Target[]) {
    this.#journal = journal
    this.#random = random
    this.#targets = targets
  }

  /** Orders until `ending`. Resolves when each client has come to the end of what it began. */
  async run(ending: AbortSignal, stopping: AbortSignal): Promise<void> {
    // Of the private CA: after failures of a public one, the next try may be ten minutes later.
    const names = Array.from({ length: CLIENTS }, (_, n) => `${CLIENT_PREFIX}${n}.own.example`)
    await Promise.all(names.map((name) => this.#runOne(name, ending, stopping)))
  }

  async #runOne(name: string, ending: AbortSignal, stopping: AbortSignal): Promise<void> {
    const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const accountUrl = await this.#insist(stopping, () => this.#register(key))
    let replaces: string | undefined
    let own = generateP256()
    while (!ending.aborted && !stopping.aborted) {
      if (this.#random.chance(0.7)) own = generateP256()
      const csr = buildCsr(own, [parseName(name)])
      const wanted = { csr, ...(replaces !== undefined && { replaces }) }
      const ended = await this.#order(await createOrder(wanted), { accountUrl, key }, stopping)
      if (ended.state.step !== 'downloaded') {
        this.#note(name, ended.orderUrl, undefined)
        replaces = undefined
        continue
      }
      const [leaf] = fromPem(ended.state.chain, 'CERTIFICATE')
      this.#note(name, ended.orderUrl, leaf)
      replaces = renewalId(leaf as Buffer)
      await sleep(this.#random.below(PAUSE_MS))
    }
  }

  async #order(
    begun: OrderState,
    account: Parameters<typeof step>[1]['account'],
    stopping: AbortSignal,
  ): Promise<{ state: OrderState; orderUrl: string }> {
    let state = begun
    let orderUrl = ''
    while (!isOver(state)) {
      stopping.throwIfAborted()
      const io = {
        ...{ transport: this.#connect(), account, clock: systemClock, signal: stopping },
        solversFor: () => [],
        warn() {},
      }
      state = await step(state, io).catch(async () => {
        await sleep(RETRY_MS)
        return state
      })
      if ('orderUrl' in state) orderUrl = state.orderUrl
    }
    return { state, orderUrl }
  }

  async #register(key: Parameters<typeof newAccount>[0]): Promise<string> {
    const headers = { authorization: `APIKey ${API_KEY}`, 'content-type': 'application/json' }
    const ask = { method: 'POST', path: '/api/acme/key', headers, body: '{}' } as const
    const answer = await send(this.#random.pick(this.#targets), ask)
    const externalAccount = JSON.parse(answer.body.toString())
    return (await this.#connect().send(newAccount(key, { externalAccount }), { key })).url
  }

  #connect(): Transport {
    const directoryUrl = new URL(`http://${HOST}/acme/directory`)
    return createTransport({ directoryUrl, fetch: this.#fetch, clock: systemClock })
  }

  /** Each request may go to another replica. */
  readonly #fetch: BoundedFetch = Object.assign(
    async (url: URL | string, init: { method?: string; headers?: object; body?: unknown } = {}) => {
      const { pathname, search } = new URL(url)
      const answer = await send(this.#random.pick(this.#targets), {
        method: (init.method ?? 'GET') as 'GET',
        path: pathname + search,
        headers: { ...init.headers, host: HOST },
        ...(init.body !== undefined && { body: String(init.body) }),
      })
      if (answer.status === 0) throw new NetError('NET_FETCH_FAILED', 'no answer')
      return answer as Awaited<ReturnType<BoundedFetch>>
    },
    { close: async () => {} },
  )

  #note(name: string, orderUrl: string, leaf: Buffer | undefined): void {
    const now = performance.now()
    const exchange = { replica: '', sent: now, answered: now, status: leaf ? 200 : 400 }
    const told = leaf && new X509Certificate(leaf)
    this.#journal.add({
      ...{ kind: 'acme order', name, ...exchange, order: orderUrl.split('/').at(-1) ?? '' },
      serial: told && plainSerial(told.serialNumber),
    })
  }

  async #insist<T>(stopping: AbortSignal, run: () => Promise<T>): Promise<T> {
    for (;;) {
      stopping.throwIfAborted()
      try {
        return await run()
      } catch {
        await sleep(RETRY_MS)
      }
    }
  }
}
