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
import { pluginOptionsOf } from './auth.ts'
import type { CertServiceConfig } from './schema.ts'

/** What has to hold of `auth` beyond its schema. */
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

/** Files are judged before a start, see `start-rules.ts`. */
function withoutFiles({ jwt, ...options }: AuthOptions): AuthOptions {
  if (!jwt) return options
  const { caFile: _, issuers, ...single } = jwt
  const listed = issuers?.map(({ caFile: _, ...issuer }) => issuer)
  return { ...options, jwt: { ...single, ...(listed && { issuers: listed }) } }
}

type Options = NonNullable<AuthOptions['jwt']>
type IssuerOption = 'issuerUrl' | 'jwksUrl'

/** What is left to be judged where a part of `auth` has a fault of its own: each option by itself. */
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

/** The faults of the options inside of the path, seen from there. */
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
