import { AllowSchema } from '@gatehouse/profile'
import { Duration, FilePath, Name, optional, Secret, Text } from '@gatehouse/service-kit/config'
import { type Static, Type } from 'typebox'
import { PROVIDER_ICONS } from './icons.ts'

export const commonOptions = {
  name: Name('Name of the provider. Part of URLs, sessions and user headers.'),
  ...optional({
    title: Text('Title on pages. Default: the name of the product.', { maxLength: 60 }),
    icon: Type.Enum([...PROVIDER_ICONS.keys()], {
      description: 'Icon on pages. Default: that of the product.',
    }),
    color: Type.String({
      pattern: '^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$',
      description: 'Colour of its button, such as `#1a73e8`.',
    }),
    allow: AllowSchema,
  }),
  timeout: Duration({
    default: '10s',
    from: '100ms',
    to: '2m',
    description: 'Timeout of each request to the provider.',
  }),
}

const OWN = 'is set by Gatehouse itself'

/** Parameters of the authorization request that Gatehouse sets itself, and what to set instead. */
const OWN_PARAMETERS = {
  client_id: `${OWN}: set \`clientId\` instead`,
  code_challenge: OWN,
  code_challenge_method: OWN,
  max_age: `${OWN}: give a policy \`maxAge\` instead`,
  nonce: OWN,
  redirect_uri: OWN,
  request: OWN,
  request_uri: OWN,
  response_mode: OWN,
  response_type: OWN,
  scope: `${OWN}: set \`scopes\` instead`,
  state: OWN,
}

export const clientOptions = {
  ...commonOptions,
  clientId: Text('Client ID issued by the provider.'),
  ...optional({
    authorizationParameters: Type.Record(
      Type.String({ pattern: '^[A-Za-z0-9_.-]{1,64}$' }),
      Type.String(),
      {
        description:
          'Additional parameters of the authorization request, such as `prompt`, `login_hint`, `acr_values` or `resource`.',
        removed: OWN_PARAMETERS,
      },
    ),
    ca: Secret('CA certificates in PEM to trust for the provider instead of those of the system.', {
      minLength: 1,
    }),
  }),
}

/** The claims that hold groups and roles, where a provider has names of its own for them. */
export const claimPaths = optional({
  groupsClaim: Text(
    'Claim that holds the groups, such as `memberOf`, or a path to it, such as ' +
      '`resource_access.app.groups`. Default: `groups` and `group`.',
    { maxLength: 256 },
  ),
  rolesClaim: Text(
    'Claim that holds the roles, or a path to it, such as `realm_access.roles`. Default: `roles` and `role`.',
    { maxLength: 256 },
  ),
})

export const clientSecret = Secret('Client secret.', { minLength: 1 })

const TokenFile = (path: string) =>
  FilePath('File with the token, read for each login.', { default: path })

/** A token that authenticates the client instead of a secret (RFC 7523). */
const ClientAssertionSchema = Type.Union(
  [
    Type.Object({
      type: Type.Literal('file'),
      file: FilePath('File with the token, read for each login.'),
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
        Text('Client ID of a user-assigned identity. Default: the system-assigned identity.'),
      ),
    }),
  ],
  { description: 'Authenticates the client with a token of the platform instead of a secret.' },
)

export type ClientAssertion = Static<typeof ClientAssertionSchema>

/** Exactly one of the two is required. */
export const secretOrAssertion = {
  clientSecret: Type.Optional(clientSecret),
  clientAssertion: Type.Optional(ClientAssertionSchema),
}

export const trustEmail = Type.Union([Type.Boolean(), Type.Literal('unlessFalse')], {
  default: false,
  description:
    '`true` treats every e-mail address as verified, `unlessFalse` all but those that the ' +
    'provider says are not. Only for providers where people cannot choose their address, such ' +
    'as a company directory.',
})

/** The scopes to request, if the preset has its own or else those of the standard. */
export function Scopes(defaults?: readonly string[]) {
  const fallback =
    'Default: `openid`, `profile`, `email`, and `groups` if the provider supports it.'
  return Type.Array(Type.String({ pattern: '^[!#-\\[\\]-~]+$' }), {
    ...(defaults && { default: [...defaults] }),
    description: defaults ? 'Scopes to request.' : `Scopes to request. ${fallback}`,
  })
}
