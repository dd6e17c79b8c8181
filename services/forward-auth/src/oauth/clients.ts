import {
  type BoundedFetch,
  createFetch,
  type FetchOptions,
  isUnder,
  parseHost,
} from '@gatehouse/net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { FwaError } from '../errors.ts'
import type { PortalSite } from '../portal-site.ts'
import type { Portal } from '../portals.ts'
import { sealValue, unsealValue } from '../seal.ts'
import { purposeAt } from '../sites.ts'
import { type Client, describeClient, type Registration } from './client.ts'
import { ClientDocuments, publicFetch } from './client-documents.ts'

/** The beginning of the IDs of clients that have registered themselves. */
const REGISTERED = 'registered.'

/**
 * The clients of all portals. One that registers itself is kept in its ID, so that strangers fill no store; the others
 * are read from the documents that their IDs name.
 */
class Clients {
  readonly #app: FastifyInstance
  readonly #createFetch: (options: FetchOptions) => BoundedFetch
  readonly #documents = new Map<Portal, ClientDocuments>()

  constructor(app: FastifyInstance, fetch: (options: FetchOptions) => BoundedFetch) {
    this.#app = app
    this.#createFetch = fetch
  }

  /**
   * The client with an ID, for a person who is signed in.
   *
   * @throws FwaError FWA_CLIENT_INVALID, FWA_CLIENT_UNREACHABLE, FWA_CLIENT_RATE
   */
  async find(at: PortalSite, clientId: string, person: string): Promise<Client> {
    if (!clientId.startsWith(REGISTERED)) return this.#documentsOf(at.portal).find(clientId, person)
    const { registration } = at.portal.authorizationServer
    const sealed = registration ? clientId.slice(REGISTERED.length) : undefined
    const client = unsealValue<Registration>(sealed, this.#app.keys.login, purposeAt(at, 'client'))
    if (!client)
      throw new FwaError('FWA_CLIENT_INVALID', 'no client with this ID is registered here any more')
    return describeClient(clientId, client)
  }

  /** Registers a client: gives its ID. */
  register(at: PortalSite, client: Registration): string {
    return `${REGISTERED}${sealValue(client, this.#app.keys.login, purposeAt(at, 'client'))}`
  }

  /** Ends the requests in flight, and forgets the portals, which a reload replaces. */
  async close(): Promise<void> {
    const open = [...this.#documents.values()]
    this.#documents.clear()
    await Promise.all(open.map((documents) => documents.close()))
  }

  #documentsOf(portal: Portal): ClientDocuments {
    const known = this.#documents.get(portal)
    if (known) return known
    const { privateNetworks } = portal.authorizationServer
    const documents = new ClientDocuments({
      fetch: publicFetch(this.#createFetch, privateNetworks),
      clock: this.#app.clock,
      isOwnHost: (host) => this.#isOwnHost(host),
    })
    this.#documents.set(portal, documents)
    return documents
  }

  #isOwnHost(name: string): boolean {
    const host = parseHost(name)
    return this.#app.sites.all.some(
      ({ domain, authOrigin }) =>
        (host && isUnder(domain, host)) || new URL(authOrigin).hostname === name,
    )
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly clients: Clients
  }
}

interface ClientsOptions {
  /** Default: that of the net package. */
  readonly createFetch?: ((options: FetchOptions) => BoundedFetch) | undefined
}

export const clients = fp<ClientsOptions>(
  async (app: FastifyInstance, { createFetch: customFetch = createFetch }) => {
    app.decorate('clients', new Clients(app, customFetch))
    app.onReload(() => () => void app.clients.close())
    app.addHook('onClose', () => app.clients.close())
  },
  {
    fastify: '5.x',
    name: 'forward-auth/clients',
    dependencies: [
      'forward-auth/keys',
      'forward-auth/sites',
      'forward-auth/portals',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)
