import type { BoundedFetch, FetchAnswer, FetchInit } from '@gatehouse/net'
import { type Claims, fromClaims } from '@gatehouse/profile'
import type { ConfigOf } from '@gatehouse/service-kit'
import { allowInsecureRequests, ClientSecretPost } from 'openid-client'
import { type TSchema, Type } from 'typebox'
import { askJson, parseJson } from './ask.ts'
import type { ProviderDeps } from './deps.ts'
import { isOutage, toFwaError } from './failure.ts'
import { authorizationRequest, configure, redeemCode } from './oauth.ts'
import { clientOptions, clientSecret, commonOptions } from './options.ts'
import { present } from './present.ts'
import type { RedirectProvider } from './provider.ts'

const PAGE_SIZE = 100
const MAX_PAGES = 10

export const GithubSchema = Type.Object({
  type: Type.Literal('github'),
  ...commonOptions,
  ...clientOptions,
  clientSecret,
  url: Type.String({
    default: 'https://github.com',
    description: 'Address of GitHub, or of an enterprise server.',
  }),
  organizations: Type.Array(Type.String({ pattern: '^[0-9A-Za-z-]+$' }), {
    default: [],
    description:
      'Organisations that count: they become the groups `acme`, their teams `acme/ops`. Others are left out.',
  }),
})

const Text = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const UserSchema = Type.Object({
  id: Type.Integer({ minimum: 1 }),
  login: Type.String({ minLength: 1 }),
  name: Text,
  avatar_url: Text,
})
const EmailsSchema = Type.Array(
  Type.Object({ email: Type.String(), primary: Type.Boolean(), verified: Type.Boolean() }),
)
const OrganizationSchema = Type.Object({ login: Type.String() })
const TeamSchema = Type.Object({ slug: Type.String(), organization: OrganizationSchema })

type Api = <S extends TSchema>(path: string, schema: S) => ReturnType<typeof askJson<S>>

/** GitHub speaks OAuth 2.0 and no OpenID Connect: its API says who signed in. */
export function createGithub(
  options: ConfigOf<typeof GithubSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  const { name, ca, timeout, clientId, clientSecret, organizations } = options
  const url = new URL(options.url)
  const shown = present(options)
  const fetch = deps.createFetch({ timeoutMs: timeout, ...(ca !== undefined && { ca }) })
  const configuration = configure(
    {
      issuer: new URL('/login/oauth', url).href,
      authorization_endpoint: new URL('/login/oauth/authorize', url).href,
      token_endpoint: new URL('/login/oauth/access_token', url).href,
    },
    clientId,
    ClientSecretPost(clientSecret),
    withErrorStatus(fetch),
  )
  if (url.protocol === 'http:') allowInsecureRequests(configuration)
  const scopes = ['read:user', 'user:email', ...(organizations.length > 0 ? ['read:org'] : [])]
  let isFailing = false

  return {
    ...shown,
    type: 'redirect',
    isPublic: isPublicGithub(options),
    failing: () => isFailing,
    authorizationUrl: (login) =>
      authorizationRequest(configuration, login, {
        scope: scopes.join(' '),
        ...(login.chooseAccount && { prompt: 'select_account' }),
      }),
    async finish(callback, login) {
      try {
        const { access_token: token } = await redeemCode(configuration, callback, login)
        const claims = await readClaims(createApi(url, fetch, token), organizations)
        isFailing = false
        return fromClaims(name, claims)
      } catch (error) {
        isFailing = isOutage(error)
        throw toFwaError(shown.title, error)
      }
    },
    logoutUrl: async () => undefined,
    close: () => fetch.close(),
  }
}

export function isPublicGithub({ url }: { readonly url: string }): boolean {
  return URL.parse(url)?.hostname === 'github.com'
}

async function readClaims(api: Api, organizations: readonly string[]): Promise<Claims> {
  const [user, emails, groups] = await Promise.all([
    api('user', UserSchema),
    api(`user/emails?per_page=${PAGE_SIZE}`, EmailsSchema),
    organizations.length > 0 ? readGroups(api, organizations) : [],
  ])
  const email = emails.find(({ primary, verified }) => primary && verified)?.email
  return {
    sub: String(user.id),
    preferred_username: user.login,
    name: user.name,
    picture: user.avatar_url,
    ...(email !== undefined && { email, email_verified: true }),
    groups,
  }
}

/** Names of organisations are free for anybody to take: only those that are configured mean anything. */
async function readGroups(api: Api, organizations: readonly string[]): Promise<string[]> {
  const configured = new Map(organizations.map((name) => [name.toLowerCase(), name]))
  const nameOf = ({ login }: { readonly login: string }) => configured.get(login.toLowerCase())
  const [memberships, teams] = await Promise.all([
    readPages(api, 'user/orgs', OrganizationSchema),
    readPages(api, 'user/teams', TeamSchema),
  ])
  return [
    ...memberships.flatMap((organization) => nameOf(organization) ?? []),
    ...teams.flatMap(({ slug, organization }) => {
      const name = nameOf(organization)
      return name === undefined ? [] : `${name}/${slug}`
    }),
  ]
}

async function readPages<S extends TSchema>(api: Api, path: string, schema: S) {
  const items = []
  for (let page = 1; page <= MAX_PAGES; page++) {
    const found = await api(`${path}?per_page=${PAGE_SIZE}&page=${page}`, Type.Array(schema))
    items.push(...found)
    if (found.length < PAGE_SIZE) return items
  }
  // What is left out must not decide.
  throw new Error(`${path} has more than ${MAX_PAGES * PAGE_SIZE} entries`)
}

function createApi(url: URL, fetch: BoundedFetch, token: string): Api {
  const root = apiRoot(url)
  const headers = {
    accept: 'application/vnd.github+json',
    authorization: `Bearer ${token}`,
    'user-agent': 'gatehouse',
    'x-github-api-version': '2022-11-28',
  }
  return (path, schema) => askJson(fetch, new URL(path, root), schema, headers)
}

/** Where the API is: of github.com and of ghe.com on a host of its own, else below the server's. */
function apiRoot({ origin, host, hostname }: URL): string {
  const isCloud = hostname === 'github.com' || hostname.endsWith('.ghe.com')
  return isCloud ? `https://api.${host}/` : `${origin}/api/v3/`
}

/** What RFC 6749 section 5.2 names otherwise. */
const STANDARD_ERRORS: ReadonlyMap<unknown, string> = new Map([
  ['bad_verification_code', 'invalid_grant'],
  ['incorrect_client_credentials', 'invalid_client'],
])

/** GitHub answers 200 when it refuses a code, where RFC 6749 section 5.2 wants 400. */
function withErrorStatus(fetch: BoundedFetch): BoundedFetch {
  async function corrected(url: URL | string, init?: FetchInit): Promise<FetchAnswer> {
    const answer = await fetch(url, init)
    const told = Object(parseJson(answer.body)) as { readonly error?: unknown }
    if (told.error === undefined) return answer
    const error = STANDARD_ERRORS.get(told.error) ?? told.error
    return { ...answer, body: Buffer.from(JSON.stringify({ ...told, error })), status: 400 }
  }
  return Object.assign(corrected, { close: fetch.close })
}
