import { DIRECTORIES } from '../../packages/issuance/src/options/issuers.ts'
import { CertServiceSchema } from '../../services/cert-service/src/config/schema.ts'

/** Keywords of JSON Schema. */
export type Form = Readonly<Record<string, unknown>>

/** Exactly one of the members, of which a later one is marked. Of a secret and its file, this is known. */
export function oneOf(...keys: string[]): Form {
  const others = (own: string, at: number) =>
    keys.slice(at + 1).filter((key) => key !== `${own}File`)
  const rows = keys.map((key, at) => [key, none(others(key, at))])
  return { anyOf: keys.map((key) => only(key)), dependencies: Object.fromEntries(rows) }
}

export const only = (...required: string[]) => ({ required })
const none = (keys: readonly string[]) => ({
  properties: Object.fromEntries(keys.map((key) => [key, false])),
})
const beside = (keys: readonly string[], others: Form) =>
  Object.fromEntries(keys.map((key) => [key, others]))

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
    'portals[].callers.keys[]': oneOf('key', 'keyFile', 'keyFiles', 'keySha256'),
  },
  'cert-service': {
    auth: {
      anyOf: [only('psk'), only('jwt'), only('issuerUrl'), only('assertion')],
      dependencies: { issuerUrl: ['audience'], audience: ['issuerUrl'], jwt: none(ISSUER_KEYS) },
    },
    'auth.psk': oneOf('key', 'keyFile', 'keys'),
    'auth.psk.keys[]': oneOf('key', 'keyFile', 'keyFiles', 'keySha256'),
    'auth.jwt': {
      anyOf: [only('issuers'), only('issuerUrl', 'audience')],
      dependencies: beside(ISSUER_KEYS, none(['issuers'])),
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
  },
}
