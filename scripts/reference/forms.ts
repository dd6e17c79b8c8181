import { PRESETS } from '../../packages/identity-providers/src/presets/index.ts'
import { DIRECTORIES } from '../../packages/issuance/src/options/issuers.ts'
import { CertServiceSchema } from '../../services/cert-service/src/config/schema.ts'

/** Keywords of JSON Schema. */
export type Form = Readonly<Record<string, unknown>>

/** Exactly one of the members, of which a later one is marked. Of a secret and its file, this is known. */
function oneOf(...keys: string[]): Form {
  const others = (own: string, at: number) =>
    keys.slice(at + 1).filter((key) => key !== `${own}File`)
  const rows = keys.map((key, at) => [key, none(others(key, at))])
  return { anyOf: keys.map((key) => only(key)), dependencies: Object.fromEntries(rows) }
}

const only = (...required: string[]) => ({ required })
const none = (keys: readonly string[]) => ({
  properties: Object.fromEntries(keys.map((key) => [key, false])),
})
const beside = (keys: readonly string[], others: Form) =>
  Object.fromEntries(keys.map((key) => [key, others]))

const EITHER_SECRET = oneOf('clientSecret', 'clientSecretFile', 'clientAssertion')

/** Parameters of an authorization request that rules refuse, since Gatehouse sets them itself. */
const PARAMETERS = {
  propertyNames: {
    not: {
      enum: [
        ...['client_id', 'code_challenge', 'code_challenge_method', 'max_age', 'nonce'],
        ...[
          'redirect_uri',
          'request',
          'request_uri',
          'response_mode',
          'response_type',
          'scope',
          'state',
        ],
      ],
    },
  },
}

const TOKEN_CONDITIONS = ['issuer', 'subject', 'claim', 'scope']
const { properties: issuer } =
  CertServiceSchema.properties.auth.properties.jwt.properties.issuers.items
const ISSUER_KEYS = Object.keys(issuer)
const AZURE_SECRET = { ...only('tenantId', 'clientId'), ...none(['tokenPath']) }

/**
 * What rules demand of the members of a mapping together, in keywords of JSON Schema, by the place of the mapping; for a
 * variant with its type. The tests find out where the two differ.
 */
export const FORMS: Readonly<Record<string, Readonly<Record<string, Form>>>> = {
  'forward-auth': {
    '': {
      if: {
        ...only('storage'),
        properties: { storage: { anyOf: [only('url'), only('urlFile')] } },
      },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { ...only('session'), properties: { session: only('keys') } },
    },
    ...Object.fromEntries(
      PRESETS.map(({ type }) => [`portals[].providers[] ${type}`, EITHER_SECRET]),
    ),
    'portals[].providers[].authorizationParameters': PARAMETERS,
    'portals[].callers.keys[]': oneOf('key', 'keyFile', 'keyFiles', 'keySha256'),
  },
  'cert-service': {
    auth: {
      anyOf: [only('psk'), only('jwt'), only('issuerUrl'), only('assertion')],
      dependencies: { issuerUrl: ['audience'], audience: ['issuerUrl'], jwt: none(ISSUER_KEYS) },
    },
    'auth.psk': oneOf('key', 'keyFile', 'keys'),
    'auth.psk.keys[]': {
      allOf: [oneOf('key', 'keyFile', 'keyFiles', 'keySha256')],
      dependencies: { profile: ['domains'] },
    },
    'auth.jwt': {
      anyOf: [only('issuers'), only('issuerUrl', 'audience')],
      dependencies: beside(ISSUER_KEYS, none(['issuers'])),
    },
    'auth.mtls.callers[]': {
      allOf: [oneOf('dns', 'email', 'uri'), oneOf('domains', 'operator')],
      dependencies: { profile: ['domains'] },
    },
    'rules[]': {
      anyOf: [
        { ...only('effect'), properties: { effect: { not: { const: 'allow' } } } },
        ...[...TOKEN_CONDITIONS, 'people', 'acme'].map((key) => only(key)),
      ],
      dependencies: beside(TOKEN_CONDITIONS, none(['people', 'acme'])),
    },
    'issuers[]': {
      if: {
        ...only('directory'),
        properties: { directory: { enum: Object.entries(DIRECTORIES).flat() } },
      },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { ...only('agreeToTerms'), properties: { agreeToTerms: { not: { const: false } } } },
    },
    'issuers[].challenges[].providers[] azure': {
      dependencies: {
        ...beside(['clientSecret', 'clientSecretFile'], AZURE_SECRET),
        tokenPath: only('tenantId', 'clientId'),
      },
    },
    'events.receivers[] email': {
      dependencies: {
        user: { anyOf: [only('password'), only('passwordFile')] },
        password: ['user'],
        passwordFile: ['user'],
      },
    },
  },
}
