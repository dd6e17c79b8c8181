import { DnsProviderSchema, PropagationSchema } from '@gatehouse/acme'
import { KEY_TYPES, type KeyType } from '@gatehouse/pki'
import { FilePath, Secret } from '@gatehouse/service-kit'
import { type Static, Type } from 'typebox'
import { LimitsSchema } from './limits.ts'

/** The directories of CAs that have a name here. */
export const DIRECTORIES: Readonly<Record<string, string>> = {
  letsencrypt: 'https://acme-v02.api.letsencrypt.org/directory',
  'letsencrypt-staging': 'https://acme-staging-v02.api.letsencrypt.org/directory',
  zerossl: 'https://acme.zerossl.com/v2/DV90',
  google: 'https://dv.acme-v02.api.pki.goog/directory',
}

/** CAs that issue no more: names and hosts that configurations may still have, and since when. */
export const ENDED: Readonly<Record<string, string>> = {
  buypass: 'October 2025',
  'api.buypass.com': 'October 2025',
}

/** What ACME CAs certify: the rules of public CAs have no Ed25519. */
export const ACME_KEY_TYPES: readonly KeyType[] = KEY_TYPES.filter((type) => type !== 'ed25519')

/** The URL of a directory that is configured by name or URL. */
export const directoryOf = (directory: string): string => DIRECTORIES[directory] ?? directory

/** Which account at which CA an issuer has: those with the same share it. */
export const accountOf = ({
  directory,
  account,
}: {
  readonly directory: string
  readonly account?: string | undefined
}): string => directoryOf(directory) + (account === undefined ? '' : `#${account}`)

const ListenSchema = (description: string) =>
  Type.Object(
    {
      host: Type.String({
        minLength: 1,
        default: '127.0.0.1',
        description: 'Address to listen on.',
      }),
      port: Type.Integer({ minimum: 0, maximum: 65_535, description: 'Port to listen on.' }),
    },
    { description },
  )

const ChallengeSchema = Type.Union([
  Type.Object({
    type: Type.Literal('dns-01'),
    providers: Type.Array(DnsProviderSchema, {
      minItems: 1,
      description: 'Who can change the DNS records; the first whose `names` hold the name.',
    }),
    propagation: PropagationSchema,
  }),
  Type.Object({
    type: Type.Literal('http-01'),
    listen: Type.Optional(
      ListenSchema(
        'A listener that answers challenges and nothing else. Left out: `server.plainHttp` answers.',
      ),
    ),
  }),
  Type.Object({
    type: Type.Literal('tls-alpn-01'),
    listen: ListenSchema('The listener that answers these challenges.'),
  }),
])

export const IssuerSchema = Type.Object({
  name: Type.String({
    pattern: '^[a-z][a-z0-9-]{0,31}$',
    description: 'What answers, the log and other options call it. `ca` is the embedded CA.',
  }),
  type: Type.Literal('acme', { description: 'A CA that speaks ACME (RFC 8555).' }),
  directory: Type.String({
    minLength: 1,
    description: `URL of its directory, or one of ${Object.keys(DIRECTORIES).join(', ')}.`,
  }),
  caFile: Type.Optional(
    FilePath({
      description: 'PEM certificates to trust for its directory, where it is not public.',
    }),
  ),
  names: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    default: ['*'],
    description:
      'Name rules of the names that it is for. The first issuer that holds every name of a certificate issues it, else the embedded CA.',
  }),
  account: Type.Optional(
    Type.String({
      pattern: '^[a-z][a-z0-9-]{0,31}$',
      description:
        'Name of an account of its own. Left out: the one that all issuers with this `directory` share.',
    }),
  ),
  email: Type.Optional(
    Type.String({
      pattern: '^[^@\\s,?]+@[^@\\s,?]+$',
      description: 'Where the CA may write to.',
    }),
  ),
  agreeToTerms: Type.Boolean({
    default: false,
    description: 'Whether you agree to the terms of service of the CA; most CAs have some.',
  }),
  externalAccount: Type.Optional(
    Type.Object(
      {
        kid: Type.String({ minLength: 1, description: 'Key identifier that the CA gave.' }),
        hmacKey: Secret({
          pattern: '^[A-Za-z0-9_-]+=*$',
          description: 'HMAC key that the CA gave, base64url.',
        }),
      },
      { description: 'Your account at the CA, for those that bind ACME accounts to one.' },
    ),
  ),
  keyType: Type.Optional(
    Type.Enum([...ACME_KEY_TYPES], {
      description: 'Kind of the keys of its certificates unless a request says; `p256`.',
    }),
  ),
  profile: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: 'One of the profiles of the CA.' }),
  ),
  preferredChain: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Common name of the root that the chain is to lead to, if the CA has several.',
    }),
  ),
  limits: Type.Optional(LimitsSchema),
  fallback: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'Issuer whose certificates are answered while this one has none: a name, or `ca`.',
    }),
  ),
  challenges: Type.Array(ChallengeSchema, {
    minItems: 1,
    description: 'How names are proven; the first that the CA offers and the name allows.',
  }),
})

export type IssuerConfig = Static<typeof IssuerSchema>
export type ChallengeConfig = IssuerConfig['challenges'][number]
