import {
  AUTH_OPTIONS_RULES,
  type AuthOptions,
  AuthOptionsSchema,
  checkAuthOptions,
  isPublicIssuer,
} from '@gatehouse/auth-core'
import { isOfClients, nameRulesOf } from '@gatehouse/issuance/options'
import { parseNameRule } from '@gatehouse/pki'
import { Duration, OptionalList, optional, Text } from '@gatehouse/service-kit/config'
import {
  applyRules,
  applyToEach,
  comparableKeys,
  type Fault,
  faultIf,
  faultOf,
  isWhole,
} from '@gatehouse/service-kit/rules'
import { type Static, Type } from 'typebox'
import { type CertificateCaller, MtlsSchema } from './certificate-callers.ts'
import { Lifetime, ProfileOf, RIGHTS, type Right, Rights } from './rights.ts'

export { RIGHTS, type Right }

const Anyone = (description: string) => Type.Optional(Type.Literal('anyone', { description }))

const allow = Anyone('For a public issuer: confirms that anyone with an account there may call.')

const { psk: Psk, jwt: Jwt } = AuthOptionsSchema.properties

const MaxTokenLifetime = (description: string) =>
  Type.Optional(Duration({ from: '1s', description }))

const maxTokenLifetime = MaxTokenLifetime(
  'Longest time from `iat` to `exp` of a token; without `iat`, from now to `exp`. Default: any.',
)

export const AuthSchema = Type.Object(
  {
    ...AuthOptionsSchema.properties,
    ...optional({
      psk: Type.Object(
        {
          ...Psk.properties,
          keys: Type.Optional(
            Type.Array(
              Type.Object(
                {
                  ...Psk.properties.keys.items.properties,
                  rights: Rights(
                    'What the key may do. Default: issue, read and renew for a key with `domains`, otherwise everything.',
                  ),
                  profile: ProfileOf(
                    'The certificates that `domains` are about. Default: `server`. A key without `domains` has all names of both.',
                  ),
                  lifetime: Type.Optional(
                    Lifetime(
                      'Lifetime of what it gets of the embedded CA, and the longest that it may ask for.',
                    ),
                  ),
                },
                { ...AUTH_OPTIONS_RULES.key, needs: { profile: ['domains'] } },
              ),
              { minItems: 1, description: 'Several named keys.' },
            ),
          ),
        },
        { ...AUTH_OPTIONS_RULES.psk, description: 'API keys: `Authorization: APIKey <key>`.' },
      ),
      jwt: Type.Object(
        {
          ...Jwt.properties,
          maxTokenLifetime,
          ...optional({
            issuers: Type.Array(
              Type.Object({ ...Jwt.properties.issuers.items.properties, maxTokenLifetime, allow }),
              {
                minItems: 1,
                description: 'Several issuers instead of one, selected by the `iss` of the token.',
              },
            ),
            domainsClaim: Text(
              'Claim with the name rules of the caller, as a list or as one comma-separated string.',
            ),
          }),
          allow,
        },
        {
          ...AUTH_OPTIONS_RULES.jwt,
          description: 'Access tokens: `Authorization: Bearer <token>`.',
        },
      ),
      mtls: MtlsSchema,
    }),
    maxTokenLifetime: MaxTokenLifetime('Short form of `jwt.maxTokenLifetime`.'),
    domainsClaim: Type.Optional(Text('Short form of `jwt.domainsClaim`.')),
    allow: Anyone('Short form of `jwt.allow`.'),
  },
  {
    ...AUTH_OPTIONS_RULES.options,
    atLeastOne: [['psk', 'jwt', 'issuerUrl', 'assertion']],
    description: 'Authentication of callers.',
  },
)

const PeopleSchema = Type.Object(
  {
    groups: OptionalList(Text('Group.'), 'Groups, of which one is enough.'),
    emailDomains: OptionalList(
      Text('Domain.'),
      'Domains of verified e-mail addresses, without their subdomains.',
    ),
  },
  { minProperties: 1 },
)

const TOKEN_CONDITIONS = ['issuer', 'subject', 'claim', 'scope']

const CONDITION = {
  when: { properties: { effect: { const: 'allow' } } },
  schema: {
    anyOf: [...TOKEN_CONDITIONS, 'people', 'acme'].map((condition) => ({ required: [condition] })),
  },
  path: '',
  message: 'needs an `issuer`, `subject`, `claim` or `scope`, or `people`',
}

export const RuleSchema = Type.Object(
  {
    effect: Type.Enum(['allow', 'deny'], {
      default: 'allow',
      description: 'Deny rules take precedence over everything that is granted.',
    }),
    names: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description:
        'Name rules: `x`, `*.x` (all names below x), `=*.x` (the wildcard certificate), `*`, or a network; ' +
        'for clients also `a@x`, `*@x`, `spiffe://x/a` and `spiffe://x/*`.',
    }),
    profile: ProfileOf(
      'The certificates that it is about. Default: `server` for an allow rule, both for a deny rule.',
    ),
    rights: Rights('Default: issue, read and renew for an allow rule, all for a deny rule.'),
    ...optional({
      lifetime: Lifetime(
        'Lifetime of certificates of the embedded CA with one of these names, and the longest that a request ' +
          'may ask for. Of several, the shortest counts. Default: as `ca` says.',
      ),
      issuer: Text('Issuer of the token. Required with several issuers.'),
      subject: Text('Subject of the token.'),
      claim: Type.Object({
        name: Text('Name of a claim.'),
        value: Type.String({ description: 'Its value, or one of the values of a list.' }),
      }),
      scope: Text('Scope of the token.'),
      acme: Type.Literal('open', {
        description:
          'ACME clients in the networks of `acme.open`, which prove by a challenge that a name leads to them.',
      }),
      people: Type.Union([Type.Literal('anyone'), PeopleSchema], {
        description:
          'People at the inventory, by the assertion of forward-auth: `anyone` who passes its ' +
          'check, or those who meet all of these restrictions.',
      }),
    }),
  },
  { excludes: { people: TOKEN_CONDITIONS, acme: TOKEN_CONDITIONS }, demands: [CONDITION] },
)

/** Allows or denies names to the callers that meet all of its conditions. */
export type PolicyRule = Static<typeof RuleSchema>
type AuthConfig = Static<typeof AuthSchema>

/** The parts of the configuration that say who may have what. */
export interface AccessConfig {
  readonly auth: AuthConfig
  readonly rules: readonly PolicyRule[]
}

/** The options of auth-core, without those that only this service has. */
export function pluginOptionsOf({ domainsClaim: _, allow: __, mtls: ___, ...auth }: AuthConfig) {
  const { psk, jwt, assertion, ...shortForms } = auth
  const keys = psk?.keys?.map(({ rights: _, profile: __, lifetime: ___, ...key }) => key)
  const { domainsClaim: _claim, allow: _allow, ...token } = jwt ?? {}
  const issuers = jwt?.issuers?.map(({ allow: _, ...issuer }) => issuer)
  return {
    ...shortForms,
    psk: psk && { ...psk, keys },
    jwt: jwt && { ...token, issuers },
    assertion: assertion && { ...assertion },
  }
}

/** The part of the row of a key that the policy reads; `lifetime` in ms. */
export type KeyRow = Pick<CertificateCaller, 'rights' | 'profile' | 'lifetime'>

/** The claim that lists the names of a caller, in its long or short form. */
export function domainsClaimOf(auth: AuthConfig): string | undefined {
  return auth.jwt?.domainsClaim ?? auth.domainsClaim
}

export function takesTokens({ method, jwt, issuerUrl }: AuthConfig): boolean {
  return method !== 'psk' && (jwt !== undefined || issuerUrl !== undefined)
}

export const AUTH_RULES = [
  checkWhole,
  checkParts,
  checkDomainsClaim,
  checkDomains,
  checkPublicIssuers,
]

function checkWhole({ auth }: AccessConfig): Fault[] {
  const options = pluginOptionsOf(auth)
  // Files are checked before a start, see `start-rules.ts`.
  for (const issuer of [options.jwt, ...(options.jwt?.issuers ?? []), options.assertion])
    delete issuer?.caFile
  return below('', options).map((fault) => ({ ...fault, path: `/auth${fault.path}` }))
}

/** Checks the options of `auth` one by one if a part of it is invalid. */
function checkParts({ auth }: AccessConfig): Fault[] {
  if (isWhole(auth)) return []
  return applyRules(
    auth,
    [
      ({ psk }) =>
        psk?.keys ? below('', pluginOptionsOf({ psk: { keys: comparableKeys(psk.keys) } })) : [],
      ({ jwt }) => applyRules(jwt ?? {}, URL_RULES, '/jwt'),
      ({ jwt }) => applyToEach(jwt?.issuers ?? [], '/jwt/issuers', URL_RULES),
      ({ issuerUrl }) => applyRules({ issuerUrl }, URL_RULES),
    ],
    '/auth',
  )
}

interface IssuerUrls {
  readonly issuerUrl?: string | undefined
  readonly jwksUrl?: string | undefined
  readonly allowHttp?: boolean
}

const URL_RULES = (['issuerUrl', 'jwksUrl'] as const).map(
  (key) =>
    ({ [key]: value, allowHttp = false }: IssuerUrls) => {
      if (value === undefined) return []
      const sound = { issuerUrl: 'https://issuer.invalid', audience: 'any', allowHttp }
      return below('/jwt', { jwt: { ...sound, [key]: value } })
    },
)

/** The faults below a path, relative to it. */
function below(path: string, options: AuthOptions): Fault[] {
  return checkAuthOptions(options)
    .filter((fault) => fault.path.startsWith(path))
    .map((fault) => ({ ...fault, path: fault.path.slice(path.length) }))
}

function checkDomainsClaim({ auth }: AccessConfig): Fault[] {
  const isTwice = auth.domainsClaim !== undefined && auth.jwt?.domainsClaim !== undefined
  return faultIf(isTwice, '/auth/domainsClaim', 'is also given as jwt.domainsClaim')
}

interface Limited {
  readonly domains?: string[]
  readonly profile?: string
}

function checkDomains({ auth }: AccessConfig): Fault[] {
  const rules = [
    ({ domains = [] }: Limited) =>
      applyToEach(domains, '/domains', [(text) => faultOf('', () => parseNameRule(text))]),
    ({ domains = [], profile = 'server' }: Limited) => checkProfile(domains, '/domains', profile),
  ]
  return [
    ...applyToEach<Limited>(auth.psk?.keys ?? [], '/auth/psk/keys', rules),
    ...applyToEach<Limited>(auth.mtls?.callers ?? [], '/auth/mtls/callers', rules),
  ]
}

/** Refuses rules for names that only client certificates have, where others are granted. */
export function checkProfile(texts: readonly string[], path: string, profile: string): Fault[] {
  const message = 'is about client certificates: set `profile: client`'
  return applyToEach(texts, path, [
    (text) => faultIf(profile === 'server' && nameRulesOf([text]).some(isOfClients), '', message),
  ])
}

/** Tells whether a rule is a reason to refuse tokens the server certificates that no rule grants. */
export function limitsTokens({ people, profile }: PolicyRule): boolean {
  return people === undefined && profile !== 'client'
}

/** Claims that are the same in all tokens of an issuer for one audience. */
const SAME_FOR_ALL: readonly string[] = ['iss', 'aud']

const ANYONE = 'or `allow: anyone` at the issuer'
const SAY_WHO = `gives anyone a token: say with \`rules\` or \`domainsClaim\` who may have which names, ${ANYONE}`

/**
 * Refuses public issuers unless something limits whose tokens are accepted, and rules that grant
 * names to everyone with an account at one.
 */
function checkPublicIssuers({ auth, rules }: AccessConfig): Fault[] {
  if (!takesTokens(auth)) return []
  const issuers = issuersOf(auth)
  const open = issuers.filter(
    ({ issuerUrl, allow }) => isPublicIssuer(issuerUrl) && allow !== 'anyone',
  )
  if (domainsClaimOf(auth) === undefined && !rules.some(limitsTokens))
    return open.map(({ path }) => ({ path, message: SAY_WHO }))

  const implied = issuers.length === 1 ? issuers[0]?.issuerUrl : undefined
  return rules.flatMap(({ effect, issuer = implied, subject, claim, scope, people }, index) => {
    const isForAll =
      subject === undefined &&
      scope === undefined &&
      (claim === undefined || SAME_FOR_ALL.includes(claim.name))
    const isOpen = open.some(({ issuerUrl }) => issuerUrl === issuer)
    if (effect === 'deny' || people !== undefined || !isOpen || !isForAll) return []
    const message = `is met by anyone with an account at ${issuer}: add a \`subject\`, \`claim\` or \`scope\`, ${ANYONE}`
    return [{ path: `/rules/${index}`, message }]
  })
}

function issuersOf({ jwt, issuerUrl, allow }: AuthConfig) {
  const listed = (jwt?.issuers ?? []).map((issuer, index) => ({
    issuerUrl: issuer.issuerUrl,
    allow: issuer.allow,
    path: `/auth/jwt/issuers/${index}/issuerUrl`,
  }))
  const issuer = jwt?.issuerUrl ?? issuerUrl
  if (issuer === undefined) return listed
  const path = jwt?.issuerUrl === undefined ? '/auth/issuerUrl' : '/auth/jwt/issuerUrl'
  return [...listed, { issuerUrl: issuer, allow: jwt?.allow ?? allow, path }]
}
