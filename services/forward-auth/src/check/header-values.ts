import type { Session } from '../session/session.ts'

/** One header to the app. */
export interface IdentityHeader {
  /** In lower case. */
  readonly name: string
  /** Encoded for the wire; '' if there is none. */
  readonly value: (session: Session) => string
}

export const PRESETS = ['default', 'remote-*', 'x-auth-request-*'] as const
export const USER_KINDS = ['subject', 'email'] as const

type Preset = (typeof PRESETS)[number]
type Property = keyof typeof PROPERTIES
type Value = (session: Session, user: UserOf) => string
type UserOf = (session: Session) => string

/** A header as the configuration describes it. */
export type HeaderRow =
  | { readonly name: string; readonly property: Property }
  | { readonly name: string; readonly claim: string }
export type HeadersConfig = Preset | readonly (Preset | HeaderRow)[]

/** What a header may tell of a session. */
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
} as const satisfies Record<string, Value>

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

/** Every header of the list, presets unfolded. */
export function headerRows(headers: HeadersConfig): readonly HeaderRow[] {
  return [headers]
    .flat()
    .flatMap((entry: Preset | HeaderRow) =>
      typeof entry === 'string' ? PRESET_ROWS[entry] : [entry],
    )
}

/** The headers of a portal. */
export function createHeaders(headers: HeadersConfig, user: UserOf): readonly IdentityHeader[] {
  return headerRows(headers).map((row) => ({
    name: row.name.toLowerCase(),
    value: readerOf(row, user),
  }))
}

/**
 * Who somebody is to the apps: the subject, with its provider where there are several, since two of
 * them may use the same one.
 */
export function createUser(
  kind: (typeof USER_KINDS)[number] | undefined,
  hasSeveralProviders: boolean,
): UserOf {
  if (kind === 'email') return ({ profile }) => encodeText(verifiedEmail(profile))
  const isPrefixed = kind === undefined && hasSeveralProviders
  return ({ profile: { provider, id } }) => encodeText(isPrefixed ? `${provider}:${id}` : id)
}

function readerOf(row: HeaderRow, user: UserOf): IdentityHeader['value'] {
  if ('claim' in row) return (session) => claimOf(session, row.claim)
  const value: Value = PROPERTIES[row.property]
  return (session) => value(session, user)
}

function claimOf({ profile }: Session, claim: string): string {
  if (claim === 'email') return encodeText(verifiedEmail(profile))
  const value = profile.claims[claim]
  if (Array.isArray(value) && value.every(isScalar)) return encodeList(value.map(String))
  if (isScalar(value)) return encodeText(String(value))
  return value == null ? '' : encodeJson(value)
}

function isScalar(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value)
}

/** Whoever types an address into a provider's form must not become its owner. */
function verifiedEmail({ email }: Session['profile']): string {
  return email?.verified ? email.address : ''
}

/**
 * A text for a header: UTF-8 in percent-encoding for `%`, for what is not ASCII, and for a space at
 * either end, which receivers would cut; `decodeURIComponent` gives the text back. Control characters
 * stay as they are, so that the header is refused.
 */
export function encodeText(text: string): string {
  return text.replace(/[^\0-\x7f]|%|^ | $/gu, encodeURIComponent)
}

/** A list for a header: its entries encoded, a comma within one too, and joined by commas. */
export function encodeList(entries: readonly string[]): string {
  return entries.map((entry) => encodeText(entry).replaceAll(',', '%2C')).join(',')
}

/** A value as JSON in ASCII. */
export function encodeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
