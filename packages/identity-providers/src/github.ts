import { type BoundedFetch, type FetchAnswer, type FetchInit, parseJson } from '@gatehouse/net'
import { type Claims, fromClaims, type Profile } from '@gatehouse/profile'
import { allowInsecureRequests, ClientSecretPost, type Configuration } from 'openid-client'
import { type Static, type TSchema, Type } from 'typebox'
import { profileAgain } from './claims.ts'
import { isOutage, toProviderError, toReRead } from './failure.ts'
import { authorizationRequest, configure, redeemCode } from './oauth.ts'
import { clientOptions, clientSecret } from './options.ts'
import type { ProviderKind, ProviderTokens, ReRead } from './provider.ts'
import { requestJson } from './request.ts'
import { keepAccess } from './tokens.ts'

const PAGE_SIZE = 100
const MAX_PAGES = 10

export const GithubSchema = Type.Object({
  type: Type.Literal('github'),
  ...clientOptions,
  clientSecret,
  url: Type.String({
    default: 'https://github.com',
    description: 'URL of GitHub or of an enterprise server.',
  }),
  organizations: Type.Array(Type.String({ pattern: '^[0-9A-Za-z-]+$' }), {
    default: [],
    description:
      'Organisations to include in the groups of the profile, as `acme`, with their teams, as `acme/ops`. All others are left out.',
  }),
})

type Options = Static<typeof GithubSchema>

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

type Api = <S extends TSchema>(path: string, schema: S) => ReturnType<typeof requestJson<S>>

/** GitHub. It supports OAuth 2.0 but not OpenID Connect, so the profile comes from its API. */
export const github: ProviderKind<Options> = {
  title: 'GitHub',
  icon: 'github',
  isPublic: ({ url }) => URL.parse(url)?.hostname === 'github.com',
  create(options, deps) {
    const { name, title, ca, timeout, organizations } = options
    const fetch = deps.createFetch({ timeoutMs: timeout, ...(ca !== undefined && { ca }) })
    const configuration = configureClient(options, fetch)
    const scopes = ['read:user', 'user:email', ...(organizations.length > 0 ? ['read:org'] : [])]
    const read = (token: string) => readClaims(createApi(options, fetch, token), organizations)
    let isFailing = false

    async function reRead(tokens: ProviderTokens, storedProfile: Profile): Promise<ReRead> {
      const { access, accessUntil = Number.POSITIVE_INFINITY } = tokens
      if (access === undefined || accessUntil <= deps.clock.now()) return { kind: 'impossible' }
      try {
        const profile = profileAgain(name, await read(access), storedProfile)
        isFailing = false
        return profile.id === storedProfile.id
          ? { kind: 'read', signedIn: { profile, tokens } }
          : { kind: 'ended', why: 'the token is that of somebody else' }
      } catch (error) {
        isFailing = isOutage(error)
        return toReRead(title, error)
      }
    }

    return {
      type: 'redirect',
      relation: undefined,
      reReads: true,
      failing: () => isFailing,
      authorizationUrl: (login) =>
        authorizationRequest(configuration, login, {
          ...options.authorizationParameters,
          scope: scopes.join(' '),
          ...(login.chooseAccount && { prompt: 'select_account' }),
        }),
      async finish(callback, login) {
        try {
          const answer = await redeemCode(configuration, callback, login)
          const claims = await read(answer.access_token)
          isFailing = false
          return { profile: fromClaims(name, claims), tokens: keepAccess(answer, deps.clock) }
        } catch (error) {
          isFailing = isOutage(error)
          throw toProviderError(title, error)
        }
      },
      reRead,
      logoutUrl: async () => undefined,
      close: () => fetch.close(),
    }
  },
}

function configureClient(
  { url, clientId, clientSecret }: Options,
  fetch: BoundedFetch,
): Configuration {
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
  if (url.startsWith('http:')) allowInsecureRequests(configuration)
  return configuration
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

/** Leaves out organisations that are not configured, since anybody can create one with an unused name. */
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
    const entries = await api(`${path}?per_page=${PAGE_SIZE}&page=${page}`, Type.Array(schema))
    items.push(...entries)
    if (entries.length < PAGE_SIZE) return items
  }
  // A condition must not be evaluated on part of the list.
  throw new Error(`${path} has more than ${MAX_PAGES * PAGE_SIZE} entries`)
}

function createApi({ url }: Options, fetch: BoundedFetch, token: string): Api {
  const root = apiRoot(new URL(url))
  const headers = {
    accept: 'application/vnd.github+json',
    authorization: `Bearer ${token}`,
    'user-agent': 'gatehouse',
    'x-github-api-version': '2022-11-28',
  }
  return (path, schema) => requestJson(fetch, new URL(path, root), schema, headers)
}

/** The root of the API: on its own host for github.com and ghe.com, otherwise below the server. */
function apiRoot({ origin, host, hostname }: URL): string {
  const isCloud = hostname === 'github.com' || hostname.endsWith('.ghe.com')
  return isCloud ? `https://api.${host}/` : `${origin}/api/v3/`
}

/** Error codes of GitHub and their names in RFC 6749 section 5.2. */
const STANDARD_ERRORS: ReadonlyMap<unknown, string> = new Map([
  ['bad_verification_code', 'invalid_grant'],
  ['incorrect_client_credentials', 'invalid_client'],
])

/** GitHub refuses a code with status 200. RFC 6749 section 5.2 requires 400. */
function withErrorStatus(fetch: BoundedFetch): BoundedFetch {
  async function corrected(url: URL | string, init?: FetchInit): Promise<FetchAnswer> {
    const answer = await fetch(url, init)
    const body = Object(parseJson(answer.body)) as { readonly error?: unknown }
    if (body.error === undefined) return answer
    const error = STANDARD_ERRORS.get(body.error) ?? body.error
    return { ...answer, body: Buffer.from(JSON.stringify({ ...body, error })), status: 400 }
  }
  return Object.assign(corrected, { close: fetch.close })
}
