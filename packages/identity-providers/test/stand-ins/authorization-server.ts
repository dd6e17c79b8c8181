import { createHash, randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { CLIENT as CORP, REDIRECT_URI } from './openid-provider.ts'

type Claims = Readonly<Record<string, unknown>>
type Answer = { readonly status?: number; readonly json: unknown } | { readonly location: URL }

/** A client that is registered there. */
export interface RegisteredClient {
  readonly clientId: string
  readonly clientSecret: string
  readonly redirectUri: string
}

const CLIENT: RegisteredClient = { ...CORP, redirectUri: REDIRECT_URI }

/** Paths and habits of one product. */
export interface Product {
  readonly client?: RegisteredClient
  readonly paths: { readonly authorize: string; readonly token: string }
  /** Whether callbacks name the issuer (RFC 9207). */
  readonly issuerInCallback?: string
  /** Beside the code: state, prompt and so on are there as they came. */
  readonly checkAuthorization?: (parameters: URLSearchParams) => boolean
  /** Beside `access_token`: the ID token. */
  readonly tokens?: (grant: Grant) => Claims
  /** What refused codes are answered with. */
  readonly refusal?: { readonly status: number; readonly error: string }
  /** In the order of `token_endpoint_auth_methods_supported`. */
  readonly authentication: readonly ('basic' | 'post' | 'assertion')[]
  readonly assertion?: string
  /** Everything else, by path; `grant` is that of the bearer token, if it has one. */
  readonly resources: Readonly<
    Record<string, (grant: Grant | undefined, request: IncomingMessage, url: URL) => Answer>
  >
}

/** What somebody has allowed the client. */
export interface Grant {
  readonly person: string
  readonly nonce: string | undefined
  readonly scopes: readonly string[]
  readonly challenge: string | null
  readonly prompt: string | null
}

/** The code flow of RFC 6749 as strict as the best of them: single use, exact redirect URI, PKCE. */
export function authorizationServer(product: Product): RequestListener {
  const codes = new Map<string, Grant>()
  const tokens = new Map<string, Grant>()
  const refreshes = new Map<string, Grant>()
  const client = product.client ?? CLIENT
  const refusal = product.refusal ?? { status: 400, error: 'invalid_grant' }
  const refused: Answer = { status: refusal.status, json: { error: refusal.error } }

  function authorize({ searchParams }: URL): Answer {
    const get = (name: string) => searchParams.get(name)
    const isRegistered =
      get('client_id') === client.clientId && get('redirect_uri') === client.redirectUri
    if (!isRegistered || product.checkAuthorization?.(searchParams) === false)
      return { status: 400, json: { error: 'invalid_request' } }
    const code = randomUUID()
    codes.set(code, {
      person: get('login_hint') ?? 'alice',
      nonce: get('nonce') ?? undefined,
      scopes: get('scope')?.split(' ') ?? [],
      challenge: get('code_challenge_method') === 'S256' ? get('code_challenge') : null,
      prompt: get('prompt'),
    })
    const location = new URL(client.redirectUri)
    location.searchParams.set('code', code)
    location.searchParams.set('state', get('state') ?? '')
    if (product.issuerInCallback) location.searchParams.set('iss', product.issuerInCallback)
    return { location }
  }

  function redeem(form: URLSearchParams, authorization: string | undefined): Answer {
    const code = form.get('code') ?? ''
    const grant = codes.get(code) ?? refreshes.get(form.get('refresh_token') ?? '')
    codes.delete(code)
    if (!authenticates(form, authorization, product))
      return { status: 401, json: { error: 'invalid_client' } }
    const verifier = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isGood =
      form.get('grant_type') === 'refresh_token' ||
      (form.get('grant_type') === 'authorization_code' &&
        form.get('redirect_uri') === client.redirectUri &&
        grant?.challenge === verifier)
    if (!grant || !isGood) return refused
    const token = randomUUID()
    tokens.set(token, grant)
    const more = product.tokens?.(grant) ?? {}
    if (typeof more.refresh_token === 'string') refreshes.set(more.refresh_token, grant)
    return { json: { access_token: token, token_type: 'bearer', ...more } }
  }

  async function answer(request: IncomingMessage): Promise<Answer> {
    const url = new URL(request.url ?? '/', 'http://stand-in')
    const { authorization } = request.headers
    const bearer = tokens.get(authorization?.replace('Bearer ', '') ?? '')
    if (url.pathname === product.paths.authorize) return authorize(url)
    if (url.pathname === product.paths.token && request.method === 'POST')
      return redeem(new URLSearchParams(await text(request)), authorization)
    return (
      product.resources[url.pathname]?.(bearer, request, url) ?? {
        status: 404,
        json: { error: 'not_found' },
      }
    )
  }

  return (request, response) => void answer(request).then((answered) => send(response, answered))
}

function authenticates(
  form: URLSearchParams,
  authorization: string | undefined,
  { authentication, assertion, client = CLIENT }: Product,
): boolean {
  const isWay = {
    basic: () => {
      const decoded = Buffer.from(authorization?.replace('Basic ', '') ?? '', 'base64').toString()
      const [id, secret] = decoded.split(':').map((part) => new URLSearchParams(`=${part}`).get(''))
      return id === client.clientId && secret === client.clientSecret
    },
    post: () =>
      form.get('client_id') === client.clientId &&
      form.get('client_secret') === client.clientSecret,
    assertion: () =>
      form.get('client_id') === client.clientId &&
      form.get('client_assertion_type') ===
        'urn:ietf:params:oauth:client-assertion-type:jwt-bearer' &&
      form.get('client_assertion') === assertion,
  }
  return authentication.some((way) => isWay[way]())
}

function send(response: ServerResponse, answer: Answer): void {
  if ('location' in answer) response.writeHead(302, { location: answer.location.href }).end()
  else
    response
      .writeHead(answer.status ?? 200, { 'content-type': 'application/json; charset=utf-8' })
      .end(JSON.stringify(answer.json))
}

/** Claims that every ID token has. */
export function tokenClaims(
  issuer: string,
  subject: string,
  nonce: string | undefined,
  client = CLIENT,
): Claims {
  const now = Math.floor(Date.now() / 1_000)
  return { iss: issuer, aud: client.clientId, sub: subject, iat: now, exp: now + 300, nonce }
}

/** A resource for whom the bearer token belongs to. */
export function forBearer(give: (grant: Grant) => unknown) {
  return (grant: Grant | undefined): Answer =>
    grant ? { json: give(grant) } : { status: 401, json: { error: 'invalid_token' } }
}
