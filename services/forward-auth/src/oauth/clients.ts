import { hash, timingSafeEqual } from 'node:crypto'
import type { ProviderDeps } from '@gatehouse/identity-providers'
import { isUnder, parseHost } from '@gatehouse/net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { parseClientId } from '../client-metadata.ts'
import { compileClients, type RegisteredClient } from '../config/clients.ts'
import { FwaError } from '../errors.ts'
import { isMacOf, macOf, sealValue, unsealValue } from '../keys/key-ring.ts'
import type { Portal, PortalsOptions } from '../portal/portals.ts'
import type { Consent } from '../session/session.ts'
import { issuerOf, pageUrl, purposeAt } from '../sites.ts'
import type { Realm } from '../web/realm.ts'
import { describeClient, type OAuthClient, type Registration, SECRET_METHODS } from './client.ts'
import type { ClientCredentials } from './client-authentication.ts'
import { ClientDocuments, publicFetch } from './client-documents.ts'
import { ClientKeys } from './client-keys.ts'
import { OAuthError } from './oauth-error.ts'

/** The beginning of the IDs of clients that have registered themselves. */
const REGISTERED = 'registered.'

interface OpenClients {
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
  readonly #createFetch: ProviderDeps['createFetch']
  readonly #openClients = new Map<Portal, OpenClients>()

  constructor(app: FastifyInstance, createFetch: ProviderDeps['createFetch']) {
    this.#app = app
    this.#createFetch = createFetch
  }

  /**
   * The client with an ID, for a person who is signed in.
   *
   * @throws FwaError FWA_CLIENT_INVALID, FWA_CLIENT_UNREACHABLE, FWA_RATE_LIMITED
   */
  async find(realm: Realm, clientId: string, person: string): Promise<OAuthClient> {
    const { configured, documents } = this.#clientsOf(realm.portal)
    const registered = configured.get(clientId)
    if (registered) return describeConfigured(registered)
    const isMalformed = clientId.startsWith('http') && !parseClientId(clientId)
    if (!isMalformed && !this.isAllowed(realm.portal, clientId))
      throw new FwaError('FWA_CLIENT_INVALID', 'this client may not be used here')
    if (!clientId.startsWith(REGISTERED)) return documents.find(clientId, person)
    const sealed = clientId.slice(REGISTERED.length)
    const purpose = purposeAt(realm, 'client')
    const registration = unsealValue<Registration>(sealed, this.#app.keys.login, purpose)
    if (registration) return describeClient(clientId, registration)
    throw new FwaError('FWA_CLIENT_INVALID', 'no client with this ID is registered here any more')
  }

  /** Whether a client may have tokens at a portal by the present configuration, whatever it was when it got them. */
  isAllowed(portal: Portal, clientId: string): boolean {
    const { configured, allows } = this.#clientsOf(portal)
    if (configured.has(clientId)) return true
    if (clientId.startsWith(REGISTERED)) return portal.authorizationServer.registration
    const id = parseClientId(clientId)
    return id !== undefined && allows(id)
  }

  /** The methods by which clients of a portal may authenticate. Some clients take the first that they support. */
  methodsOf(portal: Portal): readonly string[] {
    const { configured } = this.#clientsOf(portal)
    const hasSecrets = [...configured.values()].some(({ secret }) => secret !== undefined)
    const { registration } = portal.authorizationServer
    return ['none', 'private_key_jwt', ...(registration || hasSecrets ? SECRET_METHODS : [])]
  }

  /** Registers a client: gives its ID, and a secret if it wants one. */
  register(realm: Realm, client: Registration): { id: string; secret?: string } {
    const { login } = this.#app.keys
    const id = `${REGISTERED}${sealValue(client, login, purposeAt(realm, 'client'))}`
    return client.authentication === 'secret'
      ? { id, secret: macOf(secretOf(realm, id), login) }
      : { id }
  }

  /**
   * Authenticates a client as it declared when its person was asked, or as the present configuration has it.
   *
   * @throws OAuthError invalid_client; FwaError FWA_CLIENT_INVALID, FWA_CLIENT_UNREACHABLE, FWA_RATE_LIMITED
   */
  async authenticate(
    realm: Realm,
    { clientId, ...consent }: Pick<Consent, 'clientId' | 'authentication'>,
    { secrets = [], assertion = '' }: ClientCredentials,
    request: FastifyRequest,
  ): Promise<void> {
    if (!this.isAllowed(realm.portal, clientId))
      throw new OAuthError('invalid_client', 'the client may not be used here any more')
    const registered = this.#clientsOf(realm.portal).configured.get(clientId)
    const { authentication = 'none' } = registered ? describeConfigured(registered) : consent
    if (authentication === 'none') return
    const isProven =
      authentication === 'secret'
        ? secrets.some((secret) => this.#isSecret(realm, clientId, secret))
        : await this.#isSigned(realm, clientId, assertion, request)
    if (!isProven) throw new OAuthError('invalid_client', NOT_PROVEN[authentication])
  }

  #isSecret(realm: Realm, id: string, secret: string): boolean {
    const expected = this.#clientsOf(realm.portal).configured.get(id)?.secret
    if (expected === undefined) return isMacOf(secret, secretOf(realm, id), this.#app.keys.login)
    const digest = (text: string) => hash('sha256', text, 'buffer')
    return timingSafeEqual(digest(secret), digest(expected))
  }

  async #isSigned(realm: Realm, id: string, assertion: string, request: FastifyRequest) {
    const { jwksUrl } = await this.find(realm, id, `client ${id}`)
    const audience = [issuerOf(realm), pageUrl(realm, '/token')]
    if (jwksUrl === undefined || assertion === '') return false
    const { keys } = this.#clientsOf(realm.portal)
    return keys.isSignedBy({ id, jwksUrl }, assertion, audience, request)
  }

  /** Ends the requests in flight, and forgets the portals, which a reload replaces. */
  async close(): Promise<void> {
    const open = [...this.#openClients.values()]
    this.#openClients.clear()
    for (const { keys } of open) keys.close()
    await Promise.all(open.map(({ documents }) => documents.close()))
  }

  #clientsOf(portal: Portal) {
    const clients = this.#openClients.get(portal) ?? this.#open(portal)
    this.#openClients.set(portal, clients)
    return clients
  }

  #open({ authorizationServer: { privateNetworks, clients } }: Portal): OpenClients {
    const { clock } = this.#app
    const fetch = publicFetch(this.#createFetch, privateNetworks)
    const isOwnHost = (host: string) => this.#isOwnHost(host)
    const configured = (clients ?? []).filter((client) => typeof client !== 'string')
    return {
      configured: new Map(configured.map((client) => [client.id, client])),
      allows: compileClients(clients),
      documents: new ClientDocuments({ fetch, clock, isOwnHost }),
      keys: new ClientKeys(this.#app, fetch),
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

function describeConfigured(configured: RegisteredClient): OAuthClient {
  const { id, name, redirectUris, secret, jwksUrl } = configured
  const authentication = secret === undefined ? (jwksUrl === undefined ? 'none' : 'key') : 'secret'
  const client = describeClient(id, { name, redirectUris, authentication, jwksUrl })
  return { ...client, isConfigured: true }
}

/** The values whose MAC is the secret of a client that has registered itself: it is stored nowhere. */
function secretOf(realm: Realm, id: string): readonly string[] {
  return ['client secret', purposeAt(realm, 'client'), id]
}

const NOT_PROVEN = {
  secret: 'the client has a secret, and this is not it',
  key: 'the client authenticates by client_assertion, and this one is not valid',
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly clients: Clients
  }
}

export const clients = fp<Pick<PortalsOptions, 'createFetch'>>(
  async (app: FastifyInstance, { createFetch }) => {
    app.decorate('clients', new Clients(app, createFetch))
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
