import { readFileSync, statSync } from 'node:fs'
import { type BoundedFetch, parseEndpointUrl, parseJson } from '@gatehouse/net'
import type { ClientCredentials, Token, TokenContext } from './client-credentials.ts'
import { ClientError } from './errors.ts'

const MAX_BYTES = 65_536
/** The time before its end at which a token is replaced, in ms. */
const MARGIN = 60_000
/** The time for which a token is used that does not say when it ends, in ms. */
const UNKNOWN_LIFETIME = 60_000
/** A text that goes into a header as it is. */
const TOKEN = /^[\x21-\x7e]+$/
/** A text that is encoded before it is sent. */
const SECRET = /^\P{Cc}+$/u

/** The source of the credentials of a client; see {@link openCredentials}. */
export type Source =
  | { readonly kind: 'key'; readonly key: Secret }
  | { readonly kind: 'token'; readonly token: Secret }
  | {
      readonly kind: 'github'
      readonly url: string
      readonly token: string
      readonly audience: string
    }
  | ({ readonly kind: 'client'; readonly clientSecret: Secret } & ClientCredentials)

/** A secret itself, from the environment, or the file that holds it. */
export type Secret = { readonly text: string } | { readonly file: string }

export interface Credentials {
  /** The value of `Authorization`. @throws ClientError CERT_CLIENT_CREDENTIALS, CERT_CLIENT_UNREACHABLE */
  authorization(): Promise<string>
  /** Drops a token that was refused; false if there is no other way to get one. */
  renew?(): boolean
}

/** Opens credentials. Files are read for every request, since what is in them may be replaced at any time. */
export function openCredentials(source: Source, { fetch, now }: TokenContext): Credentials {
  switch (source.kind) {
    case 'key':
      return { authorization: async () => `APIKey ${readSecret(source.key)}` }
    case 'token':
      return { authorization: async () => `Bearer ${readSecret(source.token)}` }
    case 'github':
      return cached(() => askGithub(source, fetch), now)
    case 'client':
      return cached(async () => {
        const { requestToken } = await import('./client-credentials.ts')
        return requestToken(source, readSecret(source.clientSecret, SECRET), { fetch, now })
      }, now)
  }
}

function cached(request: () => Promise<Token>, now: () => number): Credentials {
  let token: Token | undefined
  let until = 0
  return {
    async authorization() {
      if (!token || now() >= until) {
        token = await request()
        const { expiresAt } = token
        until = expiresAt === undefined ? now() + UNKNOWN_LIFETIME : expiresAt - MARGIN
      }
      return `Bearer ${checked(token.text, 'the token that was issued')}`
    },
    renew() {
      token = undefined
      return true
    },
  }
}

/** Reads a secret without the white space around it. @throws ClientError CERT_CLIENT_CREDENTIALS */
export function readSecret(secret: Secret, form: RegExp = TOKEN): string {
  if ('text' in secret) return checked(secret.text, 'the environment variable', form)
  const { file } = secret
  try {
    const stats = statSync(file)
    if (stats.isFIFO())
      throw refused(
        `${file} is a pipe, and it is read for each request: use a file or the variable`,
      )
    if (stats.size > MAX_BYTES) throw refused(`${file} is too large for a key or token`)
    return checked(readFileSync(file, 'utf8'), file, form)
  } catch (error) {
    if (error instanceof ClientError) throw error
    throw refused(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`, error)
  }
}

function checked(text: string, where: string, form = TOKEN): string {
  const trimmed = text.trim()
  if (trimmed === '') throw refused(`${where} is empty`)
  if (!form.test(trimmed))
    throw refused(`${where} holds something else than one key, token or secret`)
  return trimmed
}

/** Whether a file with a secret can be read by every user of this machine. */
export function isExposed(file: string): boolean {
  const stats = statSync(file, { throwIfNoEntry: false })
  return stats !== undefined && (stats.mode & 0o004) !== 0
}

/** The ID token of a job of GitHub Actions that has `permissions: { id-token: write }`. */
async function askGithub(
  { url: base, token, audience }: Extract<Source, { kind: 'github' }>,
  fetch: BoundedFetch,
): Promise<Token> {
  const url = parseEndpointUrl(base)
  url.searchParams.set('audience', audience)
  const headers = { authorization: `Bearer ${checked(token, 'ACTIONS_ID_TOKEN_REQUEST_TOKEN')}` }
  const { body } = await fetch(url, { headers, json: true }).catch((cause) => {
    throw new ClientError('CERT_CLIENT_UNREACHABLE', `GitHub returned no token: ${cause.message}`, {
      cause,
      isTransient: true,
    })
  })
  const text = Object(parseJson(body)).value
  if (typeof text !== 'string') throw refused('GitHub answered without a token')
  return { text, expiresAt: endOf(text) }
}

/** `exp` of a JWT, which is not verified here: it only says when to ask for the next one. */
function endOf(jwt: string): number | undefined {
  const [, payload = ''] = jwt.split('.')
  const { exp } = Object(parseJson(Buffer.from(payload, 'base64url')))
  return typeof exp === 'number' ? exp * 1_000 : undefined
}

function refused(why: string, cause?: unknown): ClientError {
  return new ClientError('CERT_CLIENT_CREDENTIALS', why, { cause })
}
