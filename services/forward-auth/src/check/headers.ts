import { FwaError } from '../errors.ts'
import type { Session } from '../session/session.ts'

export const PRESETS = ['default', 'remote-*', 'x-auth-request-*'] as const
export const USER_KINDS = ['subject', 'email'] as const

type Preset = (typeof PRESETS)[number]
type Property = keyof typeof PROPERTIES
type UserOf = (session: Session) => string

export type HeaderRow =
  | { readonly name: string; readonly property: Property }
  | { readonly name: string; readonly claim: string }
export type HeadersConfig = Preset | readonly (Preset | HeaderRow)[]

export interface IdentityHeader {
  /** In lower case. */
  readonly name: string
  /** Encoded for the wire; '' if there is no value. */
  readonly value: (session: Session) => string
}

const PROPERTIES = {
  user: (session, user) => user(session),
  id: ({ profile }) => encodeText(profile.id),
  provider: ({ profile }) => profile.provider,
  portal: ({ portal }) => portal,
  name: ({ profile }) => encodeText(profile.name?.full ?? ''),
  email: ({ profile }) => encodeText(verifiedEmail(profile)),
  groups: ({ profile }) => encodeList(profile.groups ?? []),
  roles: ({ profile }) => encodeList(profile.roles ?? []),
  json: ({ profile, portal }) => {
    const { provider, id, name, email, picture, groups } = profile
    const user = { id, name, picture, groups, email: email?.verified ? email : undefined }
    return encodeJson({ provider, portal, user })
  },
} as const satisfies Record<string, (session: Session, user: UserOf) => string>

export const PROPERTY_NAMES = Object.keys(PROPERTIES) as Property[]

const PRESET_ROWS: Readonly<Record<Preset, readonly HeaderRow[]>> = {
  default: [
    { name: 'X-Forwarded-User', property: 'user' },
    { name: 'X-Forwarded-Displayname', property: 'name' },
    { name: 'X-Authenticated-User', property: 'json' },
  ],
  'remote-*': [
    { name: 'Remote-User', property: 'user' },
    { name: 'Remote-Name', property: 'name' },
    { name: 'Remote-Email', property: 'email' },
    { name: 'Remote-Groups', property: 'groups' },
  ],
  'x-auth-request-*': [
    { name: 'X-Auth-Request-User', property: 'user' },
    { name: 'X-Auth-Request-Email', property: 'email' },
    { name: 'X-Auth-Request-Preferred-Username', claim: 'preferred_username' },
    { name: 'X-Auth-Request-Groups', property: 'groups' },
  ],
}

export function headerRows(headers: HeadersConfig): readonly HeaderRow[] {
  return [headers]
    .flat()
    .flatMap((entry: Preset | HeaderRow) =>
      typeof entry === 'string' ? PRESET_ROWS[entry] : [entry],
    )
}

export function createHeaders(headers: HeadersConfig, user: UserOf): readonly IdentityHeader[] {
  return headerRows(headers).map((row) => ({
    name: row.name.toLowerCase(),
    value:
      'claim' in row
        ? (session) => claimValue(session, row.claim)
        : (session) => PROPERTIES[row.property](session, user),
  }))
}

/**
 * The user name that apps see: the subject, prefixed with its provider if the portal has several,
 * because two providers may use the same subject.
 */
export function createUser(
  kind: (typeof USER_KINDS)[number] | undefined,
  hasSeveralProviders: boolean,
): UserOf {
  if (kind === 'email') return ({ profile }) => encodeText(verifiedEmail(profile))
  const isPrefixed = kind === undefined && hasSeveralProviders
  return ({ profile: { provider, id } }) => encodeText(isPrefixed ? `${provider}:${id}` : id)
}

function claimValue({ profile }: Session, claim: string): string {
  if (claim === 'email') return encodeText(verifiedEmail(profile))
  const value = profile.claims[claim]
  if (Array.isArray(value) && value.every(isScalar)) return encodeList(value.map(String))
  if (isScalar(value)) return encodeText(String(value))
  return value == null ? '' : encodeJson(value)
}

function isScalar(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value)
}

/** Providers let people enter any address, so that only a verified one identifies its owner. */
function verifiedEmail({ email }: Session['profile']): string {
  return email?.verified ? email.address : ''
}

const MAX_LENGTH = 8_192
/** A session token may be as long as all cookies of its chunks. */
const MAX_TOKEN_LENGTH = 16_384
const SENDABLE = /^[ -~]*$/

export const BODY = 'OK\n'

export type CheckHeaders = Readonly<Record<string, string>>

interface HeaderSettings {
  readonly headers: readonly IdentityHeader[]
  readonly tokenHeader: string | undefined
}

/**
 * The headers of a 200: every configured header, empty if there is no value, so that no header of
 * the client's own reaches the app.
 *
 * @param session - undefined for a preflight: all configured headers are empty
 */
export function checkHeaders(
  { headers, tokenHeader }: HeaderSettings,
  session: Session | undefined,
): CheckHeaders {
  const made: Record<string, string> = {
    'cache-control': 'no-store',
    'content-type': 'text/plain; charset=utf-8',
  }
  for (const { name, value } of headers)
    made[name] = session ? sendable(name, () => value(session), MAX_LENGTH) : ''
  if (tokenHeader !== undefined)
    made[tokenHeader] = sendable(tokenHeader, () => session?.token ?? '', MAX_TOKEN_LENGTH)
  return made
}

function sendable(name: string, value: () => string, max: number): string {
  const text = read(name, value)
  const { length } = text
  if (length > max) throw unsendable(name, `would have ${length} characters, more than ${max}`)
  if (!SENDABLE.test(text)) throw unsendable(name, 'would contain a control character')
  return text
}

/** Reading a claim whose value is unknown throws. */
function read(name: string, value: () => string): string {
  try {
    return value()
  } catch (cause) {
    throw unsendable(name, 'has no known value', { cause })
  }
}

function unsendable(name: string, problem: string, options?: ErrorOptions): FwaError {
  return new FwaError('FWA_IDENTITY_UNSENDABLE', `the header ${name} ${problem}`, options)
}

/**
 * Encodes a text for a header: `%`, characters that are not ASCII, and a space at either end become
 * UTF-8 in percent-encoding; `decodeURIComponent` restores the text. Control characters are kept,
 * and the header is refused.
 */
export function encodeText(text: string): string {
  return text.replace(/[^\0-\x7f]|%|^ | $/gu, encodeURIComponent)
}

/** Encodes a list for a header: its entries encoded, commas in them too, and joined by commas. */
export function encodeList(entries: readonly string[]): string {
  return entries.map((entry) => encodeText(entry).replaceAll(',', '%2C')).join(',')
}

export function encodeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
