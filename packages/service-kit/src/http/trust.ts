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
/** The interval while a proxy has no address, so that one that starts later is found sooner. */
const RETRY_MS = 5_000
/** The time for which the last addresses hold while lookups fail, in ms. */
const HOLD_MS = 300_000
const IDLE = { cancel() {} }
const LOST = { state: 'failing', addresses: [], says: 'has lost its addresses' } as const

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
    const { clock, log } = app
    const nameOf = (name: string) => ({
      name,
      ask: proxyAsker(name, clock, lookup),
      state: undefined as ProxyAddresses['state'] | undefined,
      addresses: [] as readonly string[],
      hold: IDLE,
    })
    type Name = ReturnType<typeof nameOf>
    let names: readonly Name[] = []
    let list: TrustOptions['server']['trustedProxies']
    let next = IDLE
    let isClosed = false

    function update() {
      const addresses = names.flatMap((proxy) => proxy.addresses)
      Object.assign(app, { trust: createTrust(list && [...list, ...addresses]) })
    }
    function set(proxy: Name, { state, addresses, says }: ProxyAddresses) {
      const isSame = addresses.join() === proxy.addresses.join()
      if (isSame && state === proxy.state) return
      Object.assign(proxy, { state, addresses })
      log[state === 'found' ? 'info' : 'warn']({ proxy: proxy.name, addresses }, `proxy ${says}`)
      if (!isSame) update()
    }
    function take(proxy: Name, answer: ProxyAddresses) {
      if (!names.includes(proxy)) return
      if (answer.state === 'failing') return set(proxy, { ...answer, addresses: proxy.addresses })
      proxy.hold.cancel()
      set(proxy, answer)
      if (answer.state === 'found') proxy.hold = clock.setTimer(() => set(proxy, LOST), HOLD_MS)
    }
    /** Changes the names. A lookup of another one that ends later is ignored. */
    function use(nextNames: readonly Name[]) {
      for (const proxy of names) if (!nextNames.includes(proxy)) proxy.hold.cancel()
      names = isClosed ? [] : nextNames
    }
    function schedule() {
      next.cancel()
      const isFound = names.every(({ state }) => state === 'found')
      if (names.length > 0) next = clock.setTimer(() => void round(), isFound ? ROUND_MS : RETRY_MS)
    }
    async function round() {
      await Promise.all(names.map(async (proxy) => take(proxy, await proxy.ask())))
      schedule()
    }
    async function prepare({ server: { trustedProxies } }: TrustOptions) {
      const texts = new Set(trustedProxies?.flatMap((text) => parseProxyName(text) ?? []))
      const proxies = [...texts].map(
        (text) => names.find(({ name }) => name === text) ?? nameOf(text),
      )
      const added = proxies.filter((proxy) => !names.includes(proxy))
      const answers = await Promise.all(
        added.map(async (proxy) => ({ proxy, answer: await proxy.ask() })),
      )
      for (const { proxy, answer } of answers)
        if (answer.state === 'broad') {
          const message = `server.trustedProxies: ${proxy.name} ${answer.says}`
          throw new ConfigError('CONFIG_INVALID', message)
        }
      return () => {
        list = trustedProxies
        use(proxies)
        for (const { proxy, answer } of answers) take(proxy, answer)
        update()
        schedule()
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
      isClosed = true
      use([])
      schedule()
    })
  },
  {
    name: 'service-kit/trust',
    dependencies: ['service-kit/clock', 'service-kit/health', 'service-kit/reload'],
  },
)
