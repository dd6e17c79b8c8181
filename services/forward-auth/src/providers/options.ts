import { AllowSchema, type Claims } from '@gatehouse/profile'
import { type ConfigOf, Duration, FilePath, Secret } from '@gatehouse/service-kit'
import { Type } from 'typebox'

/** The built-in icons. */
export const PROVIDER_ICONS = [
  'openid',
  'google',
  'microsoft',
  'github',
  'gitlab',
  'pocket-id',
  'tailscale',
] as const

export type ProviderIcon = (typeof PROVIDER_ICONS)[number]

/** What every kind of provider takes. */
export const commonOptions = {
  name: Type.String({
    pattern: '^[a-z][a-z0-9-]{0,31}$',
    description: 'Name of the provider: part of URLs, sessions and user headers.',
  }),
  title: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 60,
      description: 'What pages call it. Default: the name of the product.',
    }),
  ),
  icon: Type.Optional(
    Type.Enum([...PROVIDER_ICONS], { description: 'Its icon. Default: that of the product.' }),
  ),
  color: Type.Optional(
    Type.String({
      pattern: '^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$',
      description: 'Colour of its button, such as `#1a73e8`.',
    }),
  ),
  allow: Type.Optional(AllowSchema),
  timeout: Duration({
    default: '10s',
    from: '100ms',
    to: '2m',
    description: 'How long one request to it may take.',
  }),
}

/** What every provider takes that people sign in at. */
export const clientOptions = {
  clientId: Type.String({ minLength: 1, description: 'Client identifier that it has given out.' }),
  ca: Type.Optional(
    Secret({
      minLength: 1,
      description: 'PEM certificates to trust for it instead of the system’s.',
    }),
  ),
}

export const clientSecret = Secret({ minLength: 1, description: 'Client secret.' })

const TokenFile = (path: string) =>
  FilePath({ default: path, description: 'File with the token, read anew for each login.' })

/** A token that proves who the client is, instead of a secret (RFC 7523). */
const ClientAssertionSchema = Type.Union(
  [
    Type.Object({
      type: Type.Literal('file'),
      file: FilePath({ description: 'File with the token, read anew for each login.' }),
    }),
    Type.Object({
      type: Type.Literal('kubernetesServiceAccount'),
      file: TokenFile('/var/run/secrets/kubernetes.io/serviceaccount/token'),
    }),
    Type.Object({
      type: Type.Literal('azureWorkloadIdentity'),
      file: TokenFile('/var/run/secrets/azure/tokens/azure-identity-token'),
    }),
    Type.Object({
      type: Type.Literal('azureManagedIdentity'),
      clientId: Type.Optional(
        Type.String({
          minLength: 1,
          description: 'Client identifier of a user-assigned identity. Default: system-assigned.',
        }),
      ),
    }),
  ],
  { description: 'A token of the platform that proves who the client is, instead of a secret.' },
)

export type ClientAssertion = ConfigOf<typeof ClientAssertionSchema>

/** One of them has to be given. */
export const secretOrAssertion = {
  clientSecret: Type.Optional(clientSecret),
  clientAssertion: Type.Optional(ClientAssertionSchema),
}

export const trustEmail = Type.Boolean({
  default: false,
  description:
    'Takes every address as verified. Only where people cannot choose their own, as in a company directory.',
})

const Scope = Type.String({ pattern: '^[!#-\\[\\]-~]+$' })

export const Scopes = (defaults: string[]) =>
  Type.Array(Scope, { default: defaults, description: 'Scopes to ask for.' })

export const discoveredScopes = Type.Optional(
  Type.Array(Scope, {
    description:
      'Scopes to ask for. Default: `openid`, `profile`, `email`, and `groups` if the provider lists it.',
  }),
)

/** The claims under {@link trustEmail}. */
export function withTrustedEmail(claims: Claims): Claims {
  return { ...claims, email_verified: true }
}
