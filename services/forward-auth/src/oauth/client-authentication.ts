import { attempt, decodeBase64url, isObject, parseStrictJson } from '@gatehouse/net'
import { OAuthError } from './oauth-error.ts'

/** RFC 7523 section 2.2. */
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

export interface ClientCredentials {
  readonly clientId: string
  /** The possible values of its secret, by the ways to decode it. */
  readonly secrets?: readonly string[] | undefined
  /** A JWT that it has signed. */
  readonly assertion?: string | undefined
}

type CredentialParameters = Readonly<
  Partial<
    Record<'client_id' | 'client_secret' | 'client_assertion' | 'client_assertion_type', string>
  >
>

/**
 * Reads how a client authenticates (RFC 6749 section 2.3, RFC 7523 section 2.2): by one method alone. Nothing is verified.
 *
 * @throws OAuthError invalid_request, invalid_client
 */
export function readCredentials(
  authorization = '',
  parameters: CredentialParameters,
): ClientCredentials {
  const { client_id: id, client_secret: secret, client_assertion: assertion } = parameters
  // Some clients send an old token beside their ID.
  const basic = /^basic /i.test(authorization) ? readBasic(authorization) : undefined
  if ([basic, secret, assertion].filter((credential) => credential !== undefined).length > 1)
    throw new OAuthError('invalid_request', 'a client authenticates by one method alone')
  if (assertion !== undefined && parameters.client_assertion_type !== ASSERTION_TYPE)
    throw new OAuthError('invalid_request', `client_assertion_type has to be ${ASSERTION_TYPE}`)
  const provenId = basic?.clientId ?? (assertion === undefined ? undefined : subjectOf(assertion))
  const clientId = provenId ?? id
  if (clientId === undefined) throw new OAuthError('invalid_request', 'client_id is missing')
  if (id !== undefined && id !== clientId)
    throw new OAuthError('invalid_request', 'client_id is another one than that of the credentials')
  return { clientId, secrets: basic?.secrets ?? (secret === undefined ? [] : [secret]), assertion }
}

/** RFC 6749 section 2.3.1: both are encoded as in a form. Many clients do not know that, and send them as they are. */
function readBasic(authorization: string): { clientId: string; secrets: readonly string[] } {
  const [, encoded = ''] = /^basic +([\w+/]+={0,2})$/i.exec(authorization) ?? []
  const [, id, secret] = /^([^:]+):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? []
  if (id !== undefined && secret !== undefined)
    return { clientId: fromForm(id) ?? id, secrets: [fromForm(secret) ?? secret, secret] }
  throw new OAuthError(
    'invalid_client',
    'Authorization has to be Basic, with the ID and the secret',
  )
}

const fromForm = (text: string) => attempt(() => decodeURIComponent(text.replaceAll('+', ' ')))

/** The client that an assertion is of: it need not be named beside it (RFC 7521 section 4.2). */
function subjectOf(assertion: string): string {
  const [, payload = ''] = assertion.split('.')
  const claims = attempt(() => parseStrictJson(decodeBase64url(payload)))
  if (isObject(claims) && typeof claims.sub === 'string') return claims.sub
  throw new OAuthError('invalid_client', 'client_assertion is not a JWT that names its client')
}
