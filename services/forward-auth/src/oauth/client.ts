import { hash } from 'node:crypto'
import { attempt, isObject, parseJson } from '@gatehouse/net'
import { isAllowedRedirect, isClientName, parseClientId, REDIRECT_URI } from '../client-metadata.ts'
import { FwaError } from '../errors.ts'
import type { ClientAuthentication } from '../session/session.ts'

/** The metadata of a client, as it describes itself. */
export interface Registration {
  readonly name: string | undefined
  readonly redirectUris: readonly string[]
  readonly authentication: ClientAuthentication
  /** The URL of its public keys. */
  readonly jwksUrl?: string | undefined
}

/** A client of the authorization server. */
export interface OAuthClient extends Registration {
  /** The URL of its client ID metadata document, or what it was given when it registered. */
  readonly id: string
  /** Digest of what was read, so that a changed document is another one. */
  readonly digest: string
  /** Whether an operator has registered it, and so says who it is. */
  readonly isConfigured?: boolean
}

const MAX_NAME = 100
const MAX_URIS = 20

/**
 * Reads a client ID metadata document (section 4, RFC 7591 section 2). Anybody can read it, so it has no secret.
 * @throws FwaError FWA_CLIENT_INVALID, which says what its developer must change, without its content
 */
export function readDocument(clientId: string, body: Buffer): OAuthClient {
  const refuse = (why: string) =>
    new FwaError('FWA_CLIENT_INVALID', `the document of ${new URL(clientId).host} ${why}`)
  const document = parseObject(body)
  if (!document) throw refuse('must be a JSON object in UTF-8')
  if (document.client_id !== clientId)
    throw refuse('must have exactly the URL that it was requested at as `client_id`')
  for (const [member, { isValid, must }] of Object.entries(OF_DOCUMENTS))
    if (!isValid(document[member] ?? undefined)) throw refuse(notValid(member, must))
  const described = readDescription(document, MAX_URIS, (_member, why) => refuse(why))
  const authentication = authenticationOf(clientId, document)
  if (!authentication) throw refuse(`offers no way to authenticate that there is here: ${METHODS}`)
  return describeClient(clientId, { ...described, ...authentication })
}

/**
 * Reads the metadata that a client registers (RFC 7591 section 2). A value that is not supported is replaced
 * (section 3.2.1): the answer says so.
 *
 * @param most - how many redirect URIs it may have
 * @param refuse - makes the error that is thrown, which says what is wrong with a member
 */
export function readRegistration(metadata: Members, most: number, refuse: Refuse): Registration {
  const isSecret = SECRET_METHODS.includes(methodOf(metadata))
  const authentication = isSecret ? 'secret' : 'none'
  return { ...readDescription(metadata, most, refuse), authentication }
}

type Members = Readonly<Record<string, unknown>>
type Refuse = (member: string, why: string) => Error

const notValid = (member: string, must: string) => `has a \`${member}\` that is not valid: ${must}`

function readDescription(metadata: Members, most: number, refuse: Refuse) {
  const { client_name: name, redirect_uris: redirectUris } = metadata
  const refuseUris = (why: string) => refuse('redirect_uris', why)
  // `null` is as good as absent.
  if (name !== undefined && name !== null && !isClientName(name))
    throw refuse('client_name', notValid('client_name', NAME_MUST))
  if (!isUriList(redirectUris, most))
    throw refuseUris(`needs \`redirect_uris\`, 1 to ${most} texts`)
  const refused = redirectUris.findIndex((uri) => !isAllowedRedirect(uri))
  if (refused >= 0)
    throw refuseUris(`has a redirect URI, number ${refused + 1}, that is not ${REDIRECT_URI}`)
  // Cut to the length that people read.
  const clipped = typeof name === 'string' ? [...name].slice(0, MAX_NAME).join('') : undefined
  return { name: clipped, redirectUris }
}

export function describeClient(id: string, registration: Registration): OAuthClient {
  const { name, redirectUris } = registration
  const digest = hash('sha256', JSON.stringify([id, name, redirectUris]), 'base64url')
  // A client ID from before there was another method has none.
  return { ...registration, authentication: registration.authentication ?? 'none', id, digest }
}

/** The methods of `token_endpoint_auth_method` by which clients with a secret authenticate. */
export const SECRET_METHODS: readonly string[] = ['client_secret_basic', 'client_secret_post']

/**
 * The method that a client wants when it registers. Some that name none demand a secret, as RFC 7591 section 2 has it, and
 * older ones know no other way to send it than this.
 */
export function methodOf({ token_endpoint_auth_method: method }: Members): string {
  return typeof method === 'string' ? method : 'client_secret_post'
}
const METHODS = '`none`, or `private_key_jwt` with a `jwks_uri` at the host of the document'

/**
 * The way in which the client of a document authenticates: the one it prefers if it is possible here, else the first
 * that it lists and that is; undefined if there is none.
 */
function authenticationOf(
  clientId: string,
  metadata: Members,
): Pick<Registration, 'authentication' | 'jwksUrl'> | undefined {
  const preferred = metadata.token_endpoint_auth_method ?? 'none'
  const methods = metadata.token_endpoint_auth_methods_supported
  const jwksUrl = readJwksUrl(clientId, metadata.jwks_uri)
  for (const method of [preferred, ...(Array.isArray(methods) ? methods : [])]) {
    if (method === 'none') return { authentication: 'none' }
    if (method === 'private_key_jwt' && jwksUrl) return { authentication: 'key', jwksUrl }
  }
  return undefined
}

/** The URL of the keys of a client, which must be at the host of its ID. */
function readJwksUrl(clientId: string, uri: unknown): string | undefined {
  const url = typeof uri === 'string' ? parseClientId(uri) : undefined
  return url?.host === new URL(clientId).host ? url.href : undefined
}

const isAbsent = (value: unknown) => value === undefined
const isAbsentOrHas = (text: string) => (value: unknown) =>
  isAbsent(value) || (Array.isArray(value) && value.includes(text))

const NAME_MUST =
  'use text without control, invisible or bidirectional characters, `<` and `>`, or omit it'

const OF_DOCUMENTS: Readonly<Record<string, { isValid(value: unknown): boolean; must: string }>> = {
  client_secret: { isValid: isAbsent, must: 'remove it, because anybody can read it there' },
  client_secret_expires_at: { isValid: isAbsent, must: 'remove it, because there is no secret' },
  grant_types: { isValid: isAbsentOrHas('authorization_code'), must: 'add `authorization_code`' },
  response_types: { isValid: isAbsentOrHas('code'), must: 'add `code`' },
}

function parseObject(body: Buffer): Readonly<Record<string, unknown>> | undefined {
  // A byte order mark stays, and is no JSON.
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const value = parseJson(attempt(() => decoder.decode(body)) ?? '')
  return isObject(value) ? value : undefined
}

function isUriList(value: unknown, most: number): value is readonly string[] {
  const isSized = Array.isArray(value) && value.length > 0 && value.length <= most
  return isSized && value.every((uri) => typeof uri === 'string')
}
