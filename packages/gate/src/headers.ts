import type { Host } from '@gatehouse/net'
import type { ConditionCaller, Profile } from '@gatehouse/profile'
import { GateError } from './errors.ts'
import { compileHosts } from './patterns.ts'

export const USER_KINDS = ['subject', 'email', 'username'] as const
export const ENCODINGS = ['percent', 'utf-8', 'rfc8187'] as const

export type Property = keyof typeof PROPERTIES
type UserOf = (identity: Identity) => string

/** The person that the app is told about, or a program as a profile with an ID only. */
export interface Identity {
  readonly method: ConditionCaller['method']
  readonly portal: string
  readonly profile: Profile
  /** The groups that the app is told of. Default: all. */
  readonly groups?: readonly string[] | undefined
  /** The session of a person: its ID and its end, a NumericDate in seconds. */
  readonly session?: { readonly sid: string; readonly exp: number }
  readonly scopes?: readonly string[]
  /** The client ID of a program that has a token. */
  readonly client?: string | undefined
}

/** A header to send. Apps may expect another encoding of it than that of the portal. */
export type HeaderRow = { readonly name: string; readonly encoding?: 'rfc2047' } & (
  | { readonly property: Property }
  | { readonly claim: string }
)

/** Writes a text, or a list of texts, as the value of a header. */
interface Encoding {
  readonly text: (text: string) => string
  readonly list: (entries: readonly string[]) => string
}

export interface IdentityHeader {
  /** Name in lower case. */
  readonly name: string
  /** Encoded for the wire, each character being one byte; '' if there is no value. */
  readonly value: (identity: Identity) => string
}

const PROPERTIES = {
  user: (identity, { text }, user) => text(user(identity)),
  method: ({ method }) => method,
  username: ({ profile }, { text }) => text(username(profile)),
  id: ({ profile }, { text }) => text(profile.id),
  provider: ({ profile }) => profile.provider,
  portal: ({ portal }) => portal,
  name: ({ profile }, { text }) => text(profile.name?.full ?? ''),
  email: ({ profile }, { text }) => text(verifiedEmail(profile)),
  picture: ({ profile }, { text }) => text(profile.picture ?? ''),
  groups: ({ profile, groups = profile.groups ?? [] }, { list }) => list(groups),
  roles: ({ profile }, { list }) => list(profile.roles ?? []),
  json: ({ profile, portal, groups = profile.groups }, { text }) => {
    const { provider, id, name, email, picture } = profile
    // Throws for what is the ID of a program.
    text(id)
    const user = { id, name, picture, groups, email: email?.verified ? email : undefined }
    return encodeJson({ provider, portal, user })
  },
} as const satisfies Record<
  string,
  (identity: Identity, encoding: Encoding, user: UserOf) => string
>

export const PROPERTY_NAMES = Object.keys(PROPERTIES) as Property[]

/** @param programPrefixes - what the IDs of programs begin with: no text about a person does, in any header */
export function createHeaders(
  rows: readonly HeaderRow[],
  user: UserOf,
  encoding: (typeof ENCODINGS)[number] = 'percent',
  programPrefixes: readonly string[] = [],
): readonly IdentityHeader[] {
  return rows.map((row) => {
    const encode = ENCODERS[row.encoding ?? encoding]
    const aboutPerson = {
      ...encode,
      text: (text: string) => encode.text(personText(text, programPrefixes)),
    }
    const value = (identity: Identity) => {
      const encoding = isOfPerson(identity) ? aboutPerson : encode
      return 'claim' in row
        ? claimValue(identity, row.claim, encoding)
        : PROPERTIES[row.property](identity, encoding, user)
    }
    return { name: row.name.toLowerCase(), value }
  })
}

/** A text about a person, which some app compares without regard to case. */
function personText(text: string, programPrefixes: readonly string[]): string {
  const folded = text.toLowerCase()
  if (programPrefixes.some((prefix) => folded.startsWith(prefix.toLowerCase())))
    throw new TypeError('this is the name of a program')
  return text
}

function isOfPerson({ method }: Identity): boolean {
  return method === 'session' || method === 'agent'
}

/** The user name that apps see: the subject, prefixed if there are several providers, which may use the same one. */
export function createUser(
  kind: (typeof USER_KINDS)[number] | undefined,
  hasSeveralProviders: boolean,
): UserOf {
  const isPrefixed = kind === undefined && hasSeveralProviders
  const nameOf = ({ provider, id, ...profile }: Profile) => {
    if (kind === 'email') return verifiedEmail(profile)
    if (kind === 'username') return username(profile)
    return isPrefixed ? `${provider}:${id}` : id
  }
  return (identity) => (isOfPerson(identity) ? nameOf(identity.profile) : identity.profile.id)
}

function claimValue(identity: Identity, claim: string, { text, list }: Encoding): string {
  const { profile, groups } = identity
  if (claim === 'email') return text(verifiedEmail(profile))
  const value = (claim === 'groups' && groups) || profile.claims[claim]
  if (Array.isArray(value) && value.every(isScalar)) return list(value.map(String))
  if (isScalar(value)) return text(String(value))
  return value == null ? '' : encodeJson(value)
}

function isScalar(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value)
}

function username({ claims }: Pick<Profile, 'claims'>): string {
  const { preferred_username: name } = claims
  return isScalar(name) ? String(name) : ''
}

/** Providers let people enter any address, so that only a verified one identifies its owner. */
function verifiedEmail({ email }: Pick<Profile, 'email'>): string {
  return email?.verified ? email.address : ''
}

const MAX_LENGTH = 8_192
/** Printable ASCII, and the bytes of UTF-8 but those of the control characters from U+0080 on. */
const SENDABLE = /^(?:[ -~]|\xc2[\xa0-\xbf]|[\xc3-\xf4][\x80-\xbf]{1,3})*$/

const BODY = 'OK\n'

/** The body of a 200. Node.js writes headers as UTF-8 with a body that is a string, and as their bytes with a buffer. */
export function bodyFor(encoding: (typeof ENCODINGS)[number]): string | Buffer {
  return encoding === 'utf-8' ? Buffer.from(BODY) : BODY
}

export type CheckHeaders = Readonly<Record<string, string>>

export interface HeaderSettings {
  readonly headers: readonly IdentityHeader[]
  /** Headers for some hosts whose values change: everybody gets them empty first. Names in lower case. */
  readonly dynamicHeaders: readonly string[]
}

/** A header for the apps at some hosts. Other apps get it empty, so that they get none of the client's own. */
export type HostHeader<Config> = Config & { readonly isFor: (host: Host) => boolean }

export function createHostHeader<Config extends { readonly header: string; hosts: string[] }>(
  config: Config,
): HostHeader<Config> {
  return { ...config, header: config.header.toLowerCase(), isFor: compileHosts(config.hosts) }
}

/**
 * The headers of a 200: every configured header, empty if there is no value, so that no header of
 * the client's own reaches the app. Those that change are empty.
 *
 * @param identity - undefined for a request without one: all configured headers are empty
 */
export function checkHeaders(
  { headers, dynamicHeaders }: HeaderSettings,
  identity: Identity | undefined,
): CheckHeaders {
  const result: Record<string, string> = {
    'cache-control': 'no-store',
    'content-type': 'text/plain; charset=utf-8',
  }
  for (const { name, value } of headers)
    result[name] = identity ? sendable(name, () => value(identity)) : ''
  for (const name of dynamicHeaders) result[name] = ''
  return result
}

function sendable(name: string, value: () => string): string {
  const text = read(name, value)
  const { length } = text
  if (length > MAX_LENGTH)
    throw unsendable(name, `would have ${length} characters, more than ${MAX_LENGTH}`)
  if (!SENDABLE.test(text)) throw unsendable(name, 'would contain a control character')
  if (/^ | $/.test(text))
    throw unsendable(name, 'would begin or end with a space, which HTTP removes')
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

function unsendable(name: string, problem: string, options?: ErrorOptions): GateError {
  return new GateError('FWA_IDENTITY_UNSENDABLE', `the header ${name} ${problem}`, options)
}

/**
 * The ways to write a text, and each entry of a list. No two texts are written alike, so that no name
 * passes for another one. ASCII control characters stay, and the header is refused.
 */
const ENCODERS: Readonly<Record<(typeof ENCODINGS)[number] | 'rfc2047', Encoding>> = {
  percent: encoding(encodePercent, (entry) => encodePercent(entry).replaceAll(',', '%2C')),
  'utf-8': encoding(encodeUtf8, (entry) =>
    encodeUtf8(entry.replace(/[%,]|^ | $/g, encodeURIComponent)),
  ),
  rfc8187: encoding(
    (text) => (PLAIN.test(text) ? text : encodeExtended(text)),
    (entry) => (PLAIN.test(entry) && !entry.includes(',') ? entry : encodeExtended(entry)),
  ),
  rfc2047: encoding(encodeWords),
}

function encoding(text: Encoding['text'], entry = text): Encoding {
  return { text, list: (entries) => entries.map(entry).join(',') }
}

/** UTF-8 in percent-encoding: `%`, a space at either end, and what is not ASCII. */
function encodePercent(text: string): string {
  return text.replace(/[^\0-\x7f]|%|^ | $/gu, encodeURIComponent)
}

function encodeUtf8(text: string): string {
  if (!text.isWellFormed()) throw new TypeError('half a character has no UTF-8')
  return Buffer.from(text).toString('latin1')
}

/** ASCII that neither is nor may be taken for an extended value, nor loses a space. */
const PLAIN = /^(?! |utf-8')[ -~]*(?<! )$/i

/** RFC 8187 section 3.2.1. */
function encodeExtended(text: string): string {
  const encoded = encodeUtf8(text).replace(
    /[ "%'()*,/:;<=>?@[\\\]{}\x80-\xff]/g,
    (byte) => `%${hex(byte)}`,
  )
  return `UTF-8''${encoded}`
}

/** Characters that fit into an encoded word (RFC 2047 section 2). */
const MAX_WORD = 75 - '=?utf-8?q??='.length

/** Encoded words (RFC 2047 section 4.2), unless the text is plain ASCII. */
function encodeWords(text: string): string {
  if (!/[^\0-\x7f]|^ | $|=\?/.test(text)) return text
  const words = ['']
  for (const character of text) {
    const escaped = encodeUtf8(character).replace(/[=?_\x80-\xff]/g, (byte) => `=${hex(byte)}`)
    const encoded = escaped === ' ' ? '_' : escaped
    const isFull = `${words.at(-1)}${encoded}`.length > MAX_WORD
    words.push(isFull ? encoded : `${words.pop()}${encoded}`)
  }
  return words.map((word) => `=?utf-8?q?${word}?=`).join(' ')
}

function hex(byte: string): string {
  return byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')
}

export function encodeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
