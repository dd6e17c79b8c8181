import { type AuthOptions, checkAuthOptions } from '@gatehouse/auth-core'
import { parseNameRule } from '@gatehouse/pki'
import {
  applyRules,
  applyToEach,
  type Fault,
  faultOf,
  isWhole,
  type Rule,
} from '@gatehouse/service-kit'
import { type AuthConfig, domainsClaimOf, pluginOptionsOf, takesTokens } from './auth.ts'
import type { CertServiceConfig } from './schema.ts'

/** The rules for `auth`. */
export const AUTH_RULES: readonly Rule<CertServiceConfig>[] = [
  checkWhole,
  checkParts,
  checkDomainsClaim,
  checkKeyDomains,
]

function checkWhole({ auth }: CertServiceConfig): Fault[] {
  return checkAuthOptions(withoutFiles(pluginOptionsOf(auth))).map(({ path, message }) => ({
    path: `/auth${path}`,
    message,
  }))
}

/** Files are checked before a start, see `check-files.ts`. */
function withoutFiles({ jwt, ...options }: AuthOptions): AuthOptions {
  if (!jwt) return options
  const { caFile: _, issuers, ...single } = jwt
  const listed = issuers?.map(({ caFile: _, ...issuer }) => issuer)
  return { ...options, jwt: { ...single, ...(listed && { issuers: listed }) } }
}

type Options = NonNullable<AuthOptions['jwt']>
type IssuerOption = 'issuerUrl' | 'jwksUrl'

/** If a part of `auth` is invalid, checks the other options one by one. */
function checkParts({ auth }: CertServiceConfig): Fault[] {
  if (isWhole(auth)) return []
  return applyRules(
    auth,
    [
      ({ psk }) =>
        applyToEach(psk?.keys ?? [], '/psk/keys', [
          ({ rights: _, ...key }) => below('/psk/keys/0', { psk: { keys: [key] } }),
        ]),
      ({ jwt }) => checkIssuer(jwt ?? {}, '/jwt'),
      ({ jwt }) =>
        applyToEach(jwt?.issuers ?? [], '/jwt/issuers', [(issuer) => checkIssuer(issuer, '')]),
      ({ issuerUrl }) => checkIssuer({ issuerUrl } as Options, ''),
    ],
    '/auth',
  )
}

function checkIssuer(options: Options, path: string): Fault[] {
  const keys: readonly IssuerOption[] = ['issuerUrl', 'jwksUrl']
  return applyRules(
    options,
    keys.map((key) => ({ [key]: value, allowHttp = false }: Options) => {
      if (value === undefined) return []
      const sound = { issuerUrl: 'https://issuer.invalid', audience: 'any', allowHttp }
      return below('/jwt', { jwt: { ...sound, [key]: value } })
    }),
    path,
  )
}

/** The faults below a path, relative to it. */
function below(path: string, options: AuthOptions): Fault[] {
  return checkAuthOptions(options)
    .filter((fault) => fault.path.startsWith(path))
    .map((fault) => ({ path: fault.path.slice(path.length), message: fault.message }))
}

function checkDomainsClaim({ auth }: CertServiceConfig): Fault[] {
  const isTwice = auth.domainsClaim !== undefined && auth.jwt?.domainsClaim !== undefined
  return isTwice
    ? [{ path: '/auth/domainsClaim', message: 'is also given as jwt.domainsClaim' }]
    : []
}

function checkKeyDomains({ auth }: CertServiceConfig): Fault[] {
  return applyToEach(auth.psk?.keys ?? [], '/auth/psk/keys', [
    ({ domains = [] }) =>
      applyToEach(domains, '/domains', [(text) => faultOf('', () => parseNameRule(text))]),
  ])
}

/** Issuers that give a token to anyone who creates an account. */
const PUBLIC_ISSUERS: ReadonlySet<string> = new Set([
  'https://accounts.google.com',
  'https://agent.buildkite.com',
  'https://app.terraform.io',
  'https://appleid.apple.com',
  'https://gitlab.com',
  'https://oauth2.sigstore.dev/auth',
  'https://oidc.codefresh.io',
  'https://token.actions.githubusercontent.com',
  'https://www.facebook.com',
  'https://www.linkedin.com/oauth',
])

const MICROSOFT = 'https://login.microsoftonline.com'
/** Tenants that are open to all; the last one is that of personal accounts. */
const MICROSOFT_FOR_ALL = [
  'common',
  'organizations',
  'consumers',
  '9188040d-6c67-4c5b-b112-36a304b66dad',
]

/** Claims that are the same in all tokens of an issuer for one audience. */
const SAME_FOR_ALL: readonly string[] = ['iss', 'aud']

/** Whether anyone can get a token from this issuer. */
export function isPublicIssuer(issuerUrl: string): boolean {
  const url = (URL.parse(issuerUrl)?.href ?? issuerUrl).replace(/\/+$/, '')
  if (!url.startsWith(`${MICROSOFT}/`)) return PUBLIC_ISSUERS.has(url)
  return MICROSOFT_FOR_ALL.includes(url.slice(MICROSOFT.length + 1).replace(/\/v2\.0$/, ''))
}

/** Refuses public issuers unless something limits whose tokens are accepted. */
export function checkPublicIssuers(config: CertServiceConfig): readonly Fault[] {
  if (!takesTokens(config.auth)) return []
  const unnamed = issuersOf(config.auth).filter(
    ({ issuerUrl, allow }) => isPublicIssuer(issuerUrl) && allow !== 'anyone',
  )
  const isOpen = domainsClaimOf(config.auth) === undefined && config.rules.length === 0
  if (isOpen) return unnamed.map(({ path }) => ({ path, message: SAY_WHO }))
  return checkRules(config, new Set(unnamed.map(({ issuerUrl }) => issuerUrl)))
}

const ANYONE = 'or `allow: anyone` at the issuer'
const SAY_WHO = `gives anyone a token: say with \`rules\` or \`domainsClaim\` who may have which names, ${ANYONE}`

/** Refuses rules that grant names to everyone with an account at a public issuer. */
function checkRules({ auth, rules }: CertServiceConfig, unnamed: ReadonlySet<string>): Fault[] {
  const [only, ...others] = issuersOf(auth)
  const implied = others.length === 0 ? only?.issuerUrl : undefined
  return rules.flatMap((rule, index) => {
    const { effect, issuer = implied, subject, claim, scope } = rule
    const isForAll =
      subject === undefined &&
      scope === undefined &&
      (claim === undefined || SAME_FOR_ALL.includes(claim.name))
    if (effect === 'deny' || issuer === undefined || !unnamed.has(issuer) || !isForAll) return []
    const message = `is met by anyone with an account at ${issuer}: add a \`subject\`, \`claim\` or \`scope\`, ${ANYONE}`
    return [{ path: `/rules/${index}`, message }]
  })
}

interface ConfiguredIssuer {
  readonly issuerUrl: string
  readonly allow: 'anyone' | undefined
  /** The path of its URL. */
  readonly path: string
}

function issuersOf({ jwt, issuerUrl, allow }: AuthConfig): ConfiguredIssuer[] {
  const listed = (jwt?.issuers ?? []).map((issuer, index) => ({
    issuerUrl: issuer.issuerUrl,
    allow: issuer.allow,
    path: `/auth/jwt/issuers/${index}/issuerUrl`,
  }))
  const single = jwt?.issuerUrl ?? issuerUrl
  if (single === undefined) return listed
  const path = jwt?.issuerUrl === undefined ? '/auth/issuerUrl' : '/auth/jwt/issuerUrl'
  return [...listed, { issuerUrl: single, allow: jwt?.allow ?? allow, path }]
}
