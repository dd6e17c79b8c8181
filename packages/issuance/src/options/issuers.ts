import { hash } from 'node:crypto'
import { DnsProviderSchema, PropagationSchema } from '@gatehouse/acme'
import { CLIENT_ISSUER } from '@gatehouse/cert-store/port'
import { KEY_TYPES, type KeyType, type Name } from '@gatehouse/pki'
import {
  Duration,
  FilePath,
  Flag,
  listener,
  optional,
  Secret,
  Text,
} from '@gatehouse/service-kit/config'
import { type Static, Type } from 'typebox'

/** The ACME directories that have a name in the configuration. */
export const DIRECTORIES: Readonly<Record<string, string>> = {
  letsencrypt: 'https://acme-v02.api.letsencrypt.org/directory',
  'letsencrypt-staging': 'https://acme-staging-v02.api.letsencrypt.org/directory',
  zerossl: 'https://acme.zerossl.com/v2/DV90',
  google: 'https://dv.acme-v02.api.pki.goog/directory',
}

/** CAs that no longer issue, by configured name or host, and since when. */
export const ENDED: Readonly<Record<string, string>> = {
  buypass: 'October 2025',
  'api.buypass.com': 'October 2025',
}

/** Key types of ACME CAs. The rules for public CAs do not allow Ed25519. */
export const ACME_KEY_TYPES: readonly KeyType[] = KEY_TYPES.filter((type) => type !== 'ed25519')

/** Tells whether an issuer is the embedded CA, for servers or for clients. */
export const isEmbedded = (issuer: string): boolean => issuer === 'ca' || issuer === CLIENT_ISSUER

export const directoryOf = (directory: string): string => DIRECTORIES[directory] ?? directory

/** Identifies the account of an issuer; issuers with the same value share it. */
export const accountOf = ({ directory, account }: Pick<IssuerConfig, 'directory' | 'account'>) =>
  directoryOf(directory) + (account === undefined ? '' : `#${account}`)

/** Identifies a configuration in the store, which its secrets cannot be read from. */
export const digestOf = (config: object): string => hash('sha256', JSON.stringify(config))

const NAME = '^[a-z][a-z0-9-]{0,31}$'

const LimitSchema = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        count: Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Number per period.' }),
        per: Duration({ from: '1s', description: 'Period.' }),
      },
      { description },
    ),
  )

const LimitsSchema = Type.Object(
  {
    orders: LimitSchema('Orders per account.'),
    domain: LimitSchema(
      'Certificates per registered domain (public suffix list), IPv4 address or /64 of IPv6.',
    ),
    names: LimitSchema('Certificates for exactly the same names.'),
    failures: LimitSchema('Failed validations per name.'),
    failuresInARow: LimitSchema('Failed validations per name since its last certificate.'),
    accounts: LimitSchema('Account registrations from the address of this host.'),
    renewalsExempt: Type.Optional(
      Type.Boolean({
        description: 'Whether `orders` and `domain` exempt names that already had a certificate.',
      }),
    ),
  },
  {
    description:
      'Rate limits of the CA, which orders stay below. Default: the published limits for ' +
      'letsencrypt and letsencrypt-staging, none for other CAs.',
  },
)

const ChallengeSchema = Type.Union([
  Type.Object({
    type: Type.Literal('dns-01'),
    providers: Type.Array(DnsProviderSchema, {
      minItems: 1,
      description: 'DNS providers; the first one whose `names` match is used.',
    }),
    propagation: PropagationSchema,
  }),
  Type.Object({
    type: Type.Literal('http-01'),
    listen: Type.Optional(
      Type.Object(listener(), {
        description:
          'A listener only for these challenges. Default: `server.plainHttp` responds to them.',
      }),
    ),
  }),
  Type.Object({
    type: Type.Literal('tls-alpn-01'),
    listen: Type.Object(listener(), { description: 'The listener for these challenges.' }),
  }),
])

/** The CAs that are known by name register no account without it. */
const TERMS = {
  when: {
    required: ['directory'],
    properties: { directory: { enum: Object.entries(DIRECTORIES).flat() } },
  },
  schema: { required: ['agreeToTerms'], properties: { agreeToTerms: { not: { const: false } } } },
  path: '/agreeToTerms',
  message: 'must be true: read the terms of service of the CA, and agree to them',
}

export const IssuerSchema = Type.Object(
  {
    name: Type.String({
      pattern: NAME,
      description: 'Name in answers, log lines and other options. `ca` is the embedded CA.',
    }),
    type: Type.Literal('acme', { description: 'An ACME CA (RFC 8555).' }),
    directory: Text(`URL of the ACME directory, or one of ${Object.keys(DIRECTORIES).join(', ')}.`),
    caFile: Type.Optional(
      FilePath('CA certificates in PEM for the TLS connection to a private CA.'),
    ),
    names: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      default: ['*'],
      description:
        'Name rules. The first issuer whose rules match every name of a certificate issues it, otherwise the embedded CA.',
    }),
    ...optional({
      account: Type.String({
        pattern: NAME,
        description:
          'Name of a separate account. Default: the account that issuers with this `directory` share.',
      }),
      email: Type.String({
        pattern: '^[^@\\s,?]+@[^@\\s,?]+$',
        description: 'Contact address for the CA.',
      }),
    }),
    agreeToTerms: Flag(
      'Whether you agree to the terms of service of the CA, which most CAs require.',
    ),
    ...optional({
      externalAccount: Type.Object(
        {
          kid: Text('Key identifier from the CA.'),
          hmacKey: Secret('HMAC key from the CA, base64url.', { pattern: '^[A-Za-z0-9_-]+=*$' }),
        },
        { description: 'External account binding, for CAs that require it.' },
      ),
      keyType: Type.Enum([...ACME_KEY_TYPES], {
        description: 'Key type unless a request names one. Default: `p256`.',
      }),
      profile: Text('Certificate profile of the CA.', { maxLength: 64 }),
      preferredChain: Text(
        'Common name of the root of the preferred chain, for CAs that offer several.',
      ),
      limits: LimitsSchema,
      fallback: Text('Issuer to use while this one has no certificate: a name, or `ca`.'),
    }),
    challenges: Type.Array(ChallengeSchema, {
      minItems: 1,
      description: 'Challenges; the first one that the CA offers and the name allows is used.',
    }),
  },
  { demands: [TERMS] },
)

export type IssuerConfig = Static<typeof IssuerSchema>
export type ChallengeConfig = IssuerConfig['challenges'][number]

export function canProve(
  { challenges }: { readonly challenges: readonly Pick<ChallengeConfig, 'type'>[] },
  kind: Name['kind'],
): boolean {
  if (kind === 'email' || kind === 'uri') return false
  return challenges.some(({ type }) =>
    kind === 'wildcard' ? type === 'dns-01' : kind === 'dns' || type !== 'dns-01',
  )
}
