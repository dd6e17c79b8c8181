import type { Fault } from '@gatehouse/service-kit'
import { domainsClaimOf, takesTokens } from './auth.ts'
import type { CertServiceConfig } from './schema.ts'

/** Issuers that give a token to anybody who makes an account there. */
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
/** The last one is the tenant of all personal accounts. */
const MICROSOFT_FOR_ALL = [
  'common',
  'organizations',
  'consumers',
  '9188040d-6c67-4c5b-b112-36a304b66dad',
]

/** Claims that say the same in every token that an issuer makes for one audience. */
const SAME_FOR_ALL: readonly string[] = ['iss', 'aud']

/** Whether anybody can get a token of this issuer. */
export function isPublicIssuer(issuerUrl: string): boolean {
  const url = (URL.parse(issuerUrl)?.href ?? issuerUrl).replace(/\/+$/, '')
  if (!url.startsWith(`${MICROSOFT}/`)) return PUBLIC_ISSUERS.has(url)
  return MICROSOFT_FOR_ALL.includes(url.slice(MICROSOFT.length + 1).replace(/\/v2\.0$/, ''))
}

/** Public issuers of which nothing says whose tokens count. */
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

/** Rules that grant names to everybody whom a public issuer knows. */
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
  /** Where its URL stands. */
  readonly path: string
}

function issuersOf({ jwt, issuerUrl, allow }: CertServiceConfig['auth']): ConfiguredIssuer[] {
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
