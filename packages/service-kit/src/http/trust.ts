import {
  type LookupAll,
  type ProxyAddresses,
  parseProxyName,
  proxyAsker,
  systemLookup,
} from '@gatehouse/net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { ConfigError } from '../errors.ts'
import { createTrust, type Trust } from './server.ts'

const ROUND_MS = 30_000
/** A proxy that starts later, or comes back with another address, is found sooner. */
const RETRY_MS = 5_000
/** For how long the last addresses hold while it is not known whether they are still right. */
const HOLD_MS = 300_000

declare module 'fastify' {
  interface FastifyInstance {
    /** The peers that are trusted now, and the addresses of clients as these name them. */
    readonly trust: Trust
  }
}

interface TrustOptions {
  readonly server: { readonly trustedProxies?: readonly string[] | undefined }
  /** Default: that of the system. */
  readonly lookup?: LookupAll | undefined
}

/** Decides which peers are trusted. A host name stands for the addresses that it has now. */
export const trust = fp<TrustOptions>(
  async (app: FastifyInstance, { server, lookup = systemLookup }) => {
    let list: TrustOptions['server']['trustedProxies']
    let names: readonly ProxyName[] = []
    const update = () => {
      const addresses = names.flatMap((name) => name.addresses)
      Object.assign(app, { trust: createTrust(list && [...list, ...addresses]) })
    }
    async function prepare({ server: { trustedProxies } }: TrustOptions) {
      const texts = new Set(trustedProxies?.flatMap((text) => parseProxyName(text) ?? []))
      const next = [...texts].map(
        (text) =>
          names.find(({ name }) => name === text) ?? new ProxyName(text, app, lookup, update),
      )
      const begins = await Promise.all(next.map((name) => names.includes(name) || name.prepare()))
      return () => {
        for (const name of names) if (!next.includes(name)) name.close()
        list = trustedProxies
        names = next
        for (const begin of begins) if (begin !== true) begin()
        update()
      }
    }
    app.decorate('trust', createTrust([]))
    const begin = await prepare({ server })
    begin()
    app.onReload(prepare)
    app.addHealthCheck(() => ({
      degraded: names.filter(({ state }) => state !== 'found').map(({ name }) => `proxy ${name}`),
    }))
    app.addHook('onClose', async () => {
      for (const name of names) name.close()
    })
  },
  {
    fastify: '5.x',
    name: 'service-kit/trust',
    dependencies: ['service-kit/clock', 'service-kit/health', 'service-kit/reload'],
  },
)

/** The addresses of one name, as they were found last. */
class ProxyName {
  readonly name: string
  state: ProxyAddresses['state'] | undefined
  addresses: readonly string[] = []
  readonly #app: Pick<FastifyInstance, 'clock' | 'log'>
  readonly #ask: () => Promise<ProxyAddresses>
  readonly #update: () => void
  #isClosed = false
  #next = { cancel() {} }
  #end = { cancel() {} }

  constructor(name: string, app: FastifyInstance, lookup: LookupAll, update: () => void) {
    this.name = name
    this.#app = app
    this.#ask = proxyAsker(name, app.clock, lookup)
    this.#update = update
  }

  /** Asks once; the returned function begins with what was found. @throws ConfigError CONFIG_INVALID */
  async prepare(): Promise<() => void> {
    const found = await this.#ask()
    if (found.state !== 'broad') return () => this.#take(found)
    const message = `server.trustedProxies: ${this.name} ${found.says}`
    throw new ConfigError('CONFIG_INVALID', message)
  }

  close(): void {
    this.#isClosed = true
    this.#next.cancel()
    this.#end.cancel()
  }

  #take({ state, addresses, says }: ProxyAddresses): void {
    if (this.#isClosed) return
    const { clock } = this.#app
    const isNew = state !== this.state
    this.state = state
    if (state === 'failing') this.#set(this.addresses, says, isNew)
    else {
      this.#end.cancel()
      this.#set(addresses, says, isNew)
      const drop = () => this.#set([], 'has lost its addresses')
      if (state === 'found') this.#end = clock.setTimer(drop, HOLD_MS)
    }
    const again = async () => this.#take(await this.#ask())
    this.#next = clock.setTimer(() => void again(), state === 'found' ? ROUND_MS : RETRY_MS)
  }

  #set(addresses: readonly string[], says: string, isNew = false): void {
    const isSame = addresses.join() === this.addresses.join()
    if (isSame && !isNew) return
    this.addresses = addresses
    const level = this.state === 'found' ? 'info' : 'warn'
    this.#app.log[level]({ proxy: this.name, addresses }, `proxy ${says}`)
    if (!isSame) this.#update()
  }
}
