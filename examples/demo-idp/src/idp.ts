import { generateKeyPairSync, type JsonWebKey, randomBytes } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { type Configuration, type Interaction, interactionPolicy, Provider } from 'oidc-provider'
import { memoryAdapter } from './adapter.ts'
import { errorPage, PAGE_HEADERS, signedOutPage, signInPage, signOutPage } from './pages.ts'
import { PEOPLE, type Person } from './people.ts'

/** An application that people can sign in to. */
export interface DemoClient {
  readonly clientId: string
  readonly clientSecret: string
  readonly redirectUris: readonly string[]
  readonly postLogoutRedirectUris?: readonly string[]
}

export interface DemoIdpOptions {
  /** The public origin of the provider. */
  readonly issuer: string
  /** Whether the origin is that of a reverse proxy, whose `X-Forwarded-` headers are then used. */
  readonly isProxied?: boolean
  readonly clients: readonly DemoClient[]
  /** Default: {@link PEOPLE}. */
  readonly people?: ReadonlyMap<string, Person>
  /** Private keys that sign ID tokens. Default: one new key. */
  readonly keys?: readonly JsonWebKey[]
  /** Returns the person to sign in without asking, from the hint of the application. Default: nobody. */
  readonly signsIn?: (loginHint: string | undefined) => string | undefined
}

/** How people authenticate, by `acr`: the values of `amr` (RFC 8176). */
const AUTHENTICATION: Readonly<Record<string, readonly string[]>> = {
  pwd: ['pwd'],
  mfa: ['pwd', 'otp'],
}
/** Seconds. */
const MONTH = 30 * 86_400
const INTERACTION = /^\/interaction\/[\w-]+$/

/** A complete OpenID provider that does not ask for passwords. */
export function createDemoIdp(options: DemoIdpOptions): RequestListener {
  const { people = PEOPLE, signsIn = () => undefined } = options
  const provider = new Provider(options.issuer, configuration(options))
  provider.proxy = options.isProxied ?? false
  const handle = provider.callback()

  async function interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { params, prompt }: Interaction = await provider.interactionDetails(request, response)
    // What outlives a session needs a consent (OpenID Connect Core section 11): everything is granted.
    if (prompt.name === 'consent')
      return provider.interactionFinished(request, response, { consent: {} })
    const account =
      request.method === 'POST'
        ? new URLSearchParams(await text(request)).get('account')
        : signsIn(params.login_hint)
    if (!account) return send(response, 200, signInPage(people))
    const acr = requestedAcr(params.acr_values) ?? 'pwd'
    const login = { accountId: account, acr, amr: AUTHENTICATION[acr] }
    await provider.interactionFinished(request, response, { login })
  }

  return (request, response) => {
    if (!INTERACTION.test(request.url ?? '')) return handle(request, response)
    interact(request, response).catch(({ message }: Error) =>
      send(response, 400, errorPage({ message })),
    )
  }
}

function send(response: ServerResponse, status: number, html: string): void {
  response.writeHead(status, { ...PAGE_HEADERS, 'content-type': 'text/html; charset=utf-8' })
  response.end(html)
}

function configuration({
  clients,
  people = PEOPLE,
  keys = [signingKey()],
}: DemoIdpOptions): Configuration {
  const claims = {
    profile: ['name', 'given_name', 'family_name'],
    email: ['email', 'email_verified'],
    groups: ['groups'],
  }
  return {
    acrValues: Object.keys(AUTHENTICATION),
    adapter: memoryAdapter(),
    claims,
    clients: clients.map((client) => ({
      client_id: client.clientId,
      client_secret: client.clientSecret,
      grant_types: ['authorization_code', 'refresh_token'],
      id_token_signed_response_alg: keys[0]?.alg,
      redirect_uris: client.redirectUris,
      post_logout_redirect_uris: client.postLogoutRedirectUris ?? [],
    })),
    cookies: { keys: [randomBytes(32).toString('base64url')] },
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: {
        logoutSource: (context: Context, form: string) => show(context, signOutPage(form)),
        postLogoutSuccessSource: (context: Context) => show(context, signedOutPage()),
      },
    },
    findAccount: (_context: unknown, accountId: string) =>
      people.has(accountId)
        ? { accountId, claims: () => ({ sub: accountId, ...people.get(accountId) }) }
        : undefined,
    interactions: {
      policy: askForAcr(),
      url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}`,
    },
    jwks: { keys },
    // Consent is not asked for: everything is granted.
    loadExistingGrant: async ({ oidc: { provider, client, session } }: Context) => {
      // Another grant would end what other tabs of the browser have just got.
      const before = await provider.Grant.find(session.grantIdFor(client.clientId) ?? '')
      if (before) return before
      const grant = new provider.Grant({
        clientId: client.clientId,
        accountId: session.accountId,
      })
      grant.addOIDCScope(['openid', 'offline_access', ...Object.keys(claims)].join(' '))
      await grant.save()
      return grant
    },
    renderError: (context: Context, error: Record<string, unknown>) =>
      show(context, errorPage(error)),
    ttl: {
      AccessToken: 300,
      AuthorizationCode: 60,
      Grant: MONTH,
      IdToken: 300,
      Interaction: 600,
      RefreshToken: MONTH,
      Session: 3_600,
    },
  }
}

/** The first of the requested `acr_values` that people can authenticate by. */
function requestedAcr(values = ''): string | undefined {
  return values.split(' ').find((value) => Object.hasOwn(AUTHENTICATION, value))
}

/** Has people authenticate again whose session is of another `acr` than requested. */
function askForAcr() {
  const policy = interactionPolicy.base()
  const isMissing = ({ oidc: { params, acr } }: Context) =>
    requestedAcr(params.acr_values) !== undefined &&
    !params.acr_values?.split(' ').includes(acr ?? '')
  policy
    .get('login')
    ?.checks.add(new interactionPolicy.Check('acr_values', 'Another acr is requested', isMissing))
  return policy
}

/** The part of Koa's context that is used here. */
interface Context {
  body: string
  set(headers: Readonly<Record<string, string>>): void
  readonly oidc: {
    readonly provider: Provider
    readonly client: { readonly clientId: string }
    readonly session: {
      readonly accountId: string
      grantIdFor(clientId: string): string | undefined
    }
    readonly params: { readonly acr_values?: string }
    /** Of the session. */
    readonly acr?: string
  }
}

function show(context: Context, html: string): void {
  context.set(PAGE_HEADERS)
  context.body = html
}

function signingKey(): JsonWebKey {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }
}
