import {
  type Clock,
  type LookupAll,
  type ProxyAddresses,
  parseProxyName,
  proxyAsker,
  systemLookup,
} from '@gatehouse/net'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
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

/**
 * Decides which peers are trusted. A host name of `server.trustedProxies` stands for the addresses that
 * it has now.
 */
export const trust = fp<TrustOptions>(
  async (app: FastifyInstance, { server, lookup = systemLookup }) => {
    const { clock, log } = app
    let list: TrustOptions['server']['trustedProxies']
    let names: readonly ProxyName[] = []
    const update = () => {
      const addresses = names.flatMap((name) => name.addresses)
      Object.assign(app, { trust: createTrust(list && [...list, ...addresses]) })
    }
    const add = (text: string) => new ProxyName(text, { clock, log, lookup, update })

    async function prepare({ server: { trustedProxies } }: TrustOptions) {
      const texts = new Set(trustedProxies?.flatMap((text) => parseProxyName(text) ?? []))
      const next = [...texts].map((text) => names.find(({ name }) => name === text) ?? add(text))
      const fresh = next.filter((name) => !names.includes(name))
      const begins = await Promise.all(fresh.map((name) => name.prepare()))
      return () => {
        for (const name of names) if (!next.includes(name)) name.close()
        list = trustedProxies
        names = next
        for (const begin of begins) begin()
        update()
      }
    }
    app.decorate('trust', createTrust([]))
    const begin = await prepare({ server })
    begin()
    app.onReload(prepare)
    app.addHealthCheck(() => ({
      degraded: names.filter(({ isFound }) => !isFound).map(({ name }) => `proxy ${name}`),
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

interface NameDeps {
  readonly clock: Clock
  readonly log: Pick<FastifyBaseLogger, 'info' | 'warn'>
  readonly lookup: LookupAll
  /** Called when the addresses have changed. */
  readonly update: () => void
}

type Timer = ReturnType<Clock['setTimer']>

/** The addresses of one name, as they were found last. */
class ProxyName {
  readonly name: string
  addresses: readonly string[] = []
  readonly #deps: NameDeps
  readonly #ask: () => Promise<ProxyAddresses>
  #state: ProxyAddresses['state'] | undefined
  #next: Timer | undefined
  #end: Timer | undefined
  #isClosed = false

  constructor(name: string, deps: NameDeps) {
    this.name = name
    this.#deps = deps
    this.#ask = proxyAsker(name, deps.clock, deps.lookup)
  }

  get isFound(): boolean {
    return this.#state === 'found'
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
    this.#next?.cancel()
    this.#end?.cancel()
  }

  #take(found: ProxyAddresses): void {
    if (this.#isClosed) return
    const { clock } = this.#deps
    this.#note(found)
    // What is not known changes nothing, until the end.
    if (found.state !== 'failing') {
      this.#end?.cancel()
      this.#set(found.addresses)
      if (found.state === 'found') this.#end = clock.setTimer(() => this.#drop(), HOLD_MS)
    }
    const again = async () => this.#take(await this.#ask())
    this.#next = clock.setTimer(() => void again(), this.isFound ? ROUND_MS : RETRY_MS)
  }

  #set(addresses: readonly string[]): void {
    const isSame = addresses.join() === this.addresses.join()
    this.addresses = addresses
    if (!isSame) this.#deps.update()
  }

  #drop(): void {
    this.#deps.log.warn({ proxy: this.name, addresses: [] }, 'addresses of a proxy dropped')
    this.#set([])
  }

  /** Logs what has changed. */
  #note({ state, addresses, says }: ProxyAddresses): void {
    const { name, addresses: before } = this
    const isNew = state !== this.#state
    this.#state = state
    const { log } = this.#deps
    if (state === 'found' && (isNew || addresses.join() !== before.join()))
      log.info({ proxy: name, addresses }, 'addresses of a proxy')
    if (state !== 'found' && isNew)
      log.warn({ proxy: name, addresses: state === 'failing' ? before : [] }, `proxy ${says}`)
  }
}
