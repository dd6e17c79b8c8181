import { hash, timingSafeEqual } from 'node:crypto'
import {
  type BoundedFetch,
  createFetch,
  type FetchOptions,
  isUnder,
  parseHost,
} from '@gatehouse/net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { parseClientId } from '../client-metadata.ts'
import { compileClients, type RegisteredClient } from '../config/clients.ts'
import { FwaError } from '../errors.ts'
import { isMacOf, macOf, sealValue, unsealValue } from '../keys/seal.ts'
import type { Portal } from '../portal/portals.ts'
import type { Consent } from '../session/session.ts'
import { issuerOf, pageUrl, purposeAt } from '../sites.ts'
import type { PortalSite } from '../web/portal-site.ts'
import { type Client, describeClient, type Registration, SECRET_METHODS } from './client.ts'
import type { ClientCredentials } from './client-authentication.ts'
import { ClientDocuments, publicFetch } from './client-documents.ts'
import { ClientKeys } from './client-keys.ts'
import { OAuthError } from './oauth-error.ts'

/** The beginning of the IDs of clients that have registered themselves. */
const REGISTERED = 'registered.'

/** What a portal knows of its clients. */
interface OpenClients {
  /** Those that the configuration has, by their IDs. */
  readonly configured: ReadonlyMap<string, RegisteredClient>
  /** Whether the client of a document may be allowed. */
  readonly allows: (id: URL) => boolean
  readonly documents: ClientDocuments
  readonly keys: ClientKeys
}

/**
 * The clients of all portals. One that registers itself is kept in its ID, so that strangers fill no store; the others
 * are read from the documents that their IDs name.
 */
class Clients {
  readonly #app: FastifyInstance
  readonly #createFetch: (options: FetchOptions) => BoundedFetch
  readonly #known = new Map<Portal, OpenClients>()

  constructor(app: FastifyInstance, fetch: (options: FetchOptions) => BoundedFetch) {
    this.#app = app
    this.#createFetch = fetch
  }

  /**
   * The client with an ID, for a person who is signed in.
   *
   * @throws FwaError FWA_CLIENT_INVALID, FWA_CLIENT_UNREACHABLE, FWA_RATE_LIMITED
   */
  async find(at: PortalSite, clientId: string, person: string): Promise<Client> {
    const { configured, documents } = this.#of(at.portal)
    const known = configured.get(clientId)
    if (known) return describeConfigured(known)
    const isMalformed = clientId.startsWith('http') && !parseClientId(clientId)
    if (!isMalformed && !this.isAllowed(at.portal, clientId))
      throw new FwaError('FWA_CLIENT_INVALID', 'it is none of the clients that may be used here')
    if (!clientId.startsWith(REGISTERED)) return documents.find(clientId, person)
    const sealed = clientId.slice(REGISTERED.length)
    const client = unsealValue<Registration>(sealed, this.#app.keys.login, purposeAt(at, 'client'))
    if (!client)
      throw new FwaError('FWA_CLIENT_INVALID', 'no client with this ID is registered here any more')
    return describeClient(clientId, client)
  }

  /** Whether a client may have tokens at a portal: by the configuration of now, whatever it was when it got them. */
  isAllowed(portal: Portal, clientId: string): boolean {
    const { configured, allows } = this.#of(portal)
    if (configured.has(clientId)) return true
    if (clientId.startsWith(REGISTERED)) return portal.authorizationServer.registration
    const id = parseClientId(clientId)
    return id !== undefined && allows(id)
  }

  /** The methods by which clients of a portal may authenticate. Some clients take the first one that they can. */
  methodsOf(portal: Portal): readonly string[] {
    const { configured } = this.#of(portal)
    const hasSecrets = [...configured.values()].some(({ secret }) => secret !== undefined)
    const { registration } = portal.authorizationServer
    return ['none', 'private_key_jwt', ...(registration || hasSecrets ? SECRET_METHODS : [])]
  }

  /** Registers a client: gives its ID, and a secret if it wants one. */
  register(at: PortalSite, client: Registration): { id: string; secret?: string } {
    const { login } = this.#app.keys
    const id = `${REGISTERED}${sealValue(client, login, purposeAt(at, 'client'))}`
    return client.authentication === 'secret'
      ? { id, secret: macOf(secretOf(at, id), login) }
      : { id }
  }

  /**
   * Has a client authenticate as it said that it does when its person was asked, or as the configuration has it now.
   *
   * @throws OAuthError invalid_client; FwaError FWA_CLIENT_INVALID, FWA_CLIENT_UNREACHABLE, FWA_RATE_LIMITED
   */
  async authenticate(
    at: PortalSite,
    { clientId, ...consent }: Pick<Consent, 'clientId' | 'authentication'>,
    { secrets = [], assertion = '' }: ClientCredentials,
    request: FastifyRequest,
  ): Promise<void> {
    if (!this.isAllowed(at.portal, clientId))
      throw new OAuthError('invalid_client', 'the client may not be used here any more')
    const known = this.#of(at.portal).configured.get(clientId)
    const { authentication = 'none' } = known ? describeConfigured(known) : consent
    if (authentication === 'none') return
    const isProven =
      authentication === 'secret'
        ? secrets.some((secret) => this.#isSecret(at, clientId, secret))
        : await this.#isSigned(at, clientId, assertion, request)
    if (!isProven) throw new OAuthError('invalid_client', NOT_PROVEN[authentication])
  }

  #isSecret(at: PortalSite, id: string, secret: string): boolean {
    const own = this.#of(at.portal).configured.get(id)?.secret
    if (own === undefined) return isMacOf(secret, secretOf(at, id), this.#app.keys.login)
    const [given, wanted] = [secret, own].map((text) => hash('sha256', text, 'buffer'))
    return timingSafeEqual(given as Buffer, wanted as Buffer)
  }

  async #isSigned(at: PortalSite, id: string, assertion: string, request: FastifyRequest) {
    const { jwksUrl } = await this.find(at, id, `client ${id}`)
    const audience = [issuerOf(at), pageUrl(at, '/token')]
    if (jwksUrl === undefined || assertion === '') return false
    return this.#of(at.portal).keys.isSignedBy({ id, jwksUrl }, assertion, audience, request)
  }

  /** Ends the requests in flight, and forgets the portals, which a reload replaces. */
  async close(): Promise<void> {
    const open = [...this.#known.values()]
    this.#known.clear()
    for (const { keys } of open) keys.close()
    await Promise.all(open.map(({ documents }) => documents.close()))
  }

  #of(portal: Portal) {
    const known = this.#known.get(portal) ?? this.#open(portal)
    this.#known.set(portal, known)
    return known
  }

  /** What is read of the clients of a portal. */
  #open({ authorizationServer: { privateNetworks, clients } }: Portal): OpenClients {
    const { clock, authStore, log } = this.#app
    const fetch = publicFetch(this.#createFetch, privateNetworks)
    const isOwnHost = (host: string) => this.#isOwnHost(host)
    const configured = (clients ?? []).filter((one) => typeof one !== 'string')
    return {
      configured: new Map(configured.map((one) => [one.id, one])),
      allows: compileClients(clients),
      documents: new ClientDocuments({ fetch, clock, isOwnHost }),
      keys: new ClientKeys({ fetch, authStore, log }),
    }
  }

  #isOwnHost(name: string): boolean {
    const host = parseHost(name)
    return this.#app.sites.list.some(
      ({ domain, authOrigin }) =>
        (host && isUnder(domain, host)) || new URL(authOrigin).hostname === name,
    )
  }
}

function describeConfigured({ id, name, redirectUris, secret, jwksUrl }: RegisteredClient): Client {
  const authentication = secret === undefined ? (jwksUrl === undefined ? 'none' : 'key') : 'secret'
  const said = describeClient(id, { name, redirectUris, authentication, jwksUrl })
  return { ...said, isConfigured: true }
}

/** What the secret of a client that has registered itself is made of: it is kept nowhere. */
const secretOf = (at: PortalSite, id: string) => ['client secret', purposeAt(at, 'client'), id]

const NOT_PROVEN = {
  secret: 'the client has a secret, and this is not it',
  key: 'the client authenticates by client_assertion, and this one is not valid',
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
    name: 'forward-auth/clients',
    dependencies: [
      'forward-auth/keys',
      'forward-auth/sites',
      'forward-auth/portals',
      'forward-auth/store',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)
