import type { AcmeAuthorization, AcmeOrder } from '@gatehouse/acme'
import { type FetchAnswer, NetError, parseAdvertisedUrl, parseJson } from '@gatehouse/net'
import { printable } from '@gatehouse/service-kit/program'

export interface Finding {
  readonly level: 'ok' | 'warning' | 'fault'
  readonly text: string
  readonly advice?: string
}

type Findings<T = void> = Generator<Finding, T>

/** Cleans the text, much of which comes from the server. */
export function say(level: Finding['level'], text: string, advice?: string): Finding {
  return { level, text: printable(text), ...(advice !== undefined && { advice }) }
}

/** The result of a TLS handshake. `refused` is the code of OpenSSL or Node if the chain is not accepted. */
export interface Handshake {
  readonly protocol: string
  readonly root: string
  readonly refused: string | undefined
}

const PROXY = 'Have the proxy in front pass on Host and scheme as the client sent them.'
const CACHE = 'Let no cache be in front: each nonce is new, and is used once.'
const PASS_ON = 'Have the proxy in front pass on every answer of the server as it is, also errors.'
/** Advice where the root is not to blame. */
const NO_FAULT_OF_THE_ROOT: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'Compare the clocks; if they are right, renew the certificate of the server.',
  CERT_NOT_YET_VALID: 'Compare the clocks of both machines.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Use a host name that is in the certificate of the server.',
}

/** Says who trusts the certificate of the server: the system, and the file of roots if there is one. */
export function* judgeTls(bySystem: Handshake, byFile?: Handshake, file = 'FILE'): Findings {
  const { protocol, root, refused } = byFile ?? bySystem
  const trust =
    `Give the root to each client. certbot: REQUESTS_CA_BUNDLE=${file}; Caddy: acme_ca_root ${file}; ` +
    `lego: LEGO_CA_CERTIFICATES=${file}; Traefik: caCertificates: [${file}]`
  if (refused === undefined) yield say('ok', `${protocol}; the certificate leads to ${root}`)
  else {
    const verifier = byFile ? `by ${file}` : 'by this system'
    yield say(
      'fault',
      `the certificate leads to ${root}, and is not trusted ${verifier} (${refused})`,
      NO_FAULT_OF_THE_ROOT[refused] ?? `Name the file of the right root by --ca FILE. ${trust}`,
    )
  }
  if (byFile && bySystem.refused !== undefined)
    yield say('warning', 'this system does not trust that root', trust)
}

const NEEDED = ['newNonce', 'newAccount', 'newOrder']
/** Other members of a directory may be anything. */
const KNOWN = [...NEEDED, 'revokeCert', 'keyChange', 'renewalInfo']

/** Reads a directory (RFC 8555 section 7.1.1). Returns its URLs, or undefined if no client could use them. */
export function* judgeDirectory(
  from: URL,
  { status, body }: FetchAnswer,
): Findings<Readonly<Record<string, URL>> | undefined> {
  const { meta, ...members } = Object(parseJson(body))
  const texts = KNOWN.flatMap((name) => {
    const text: unknown = members[name]
    return typeof text === 'string' ? [[name, text] as const] : []
  })
  const missing = NEEDED.find((name) => !texts.some(([text]) => text === name))
  if (status !== 200 || missing !== undefined) {
    const why = status === 200 ? `it has no ${missing}` : `the status is ${status}`
    const advice = 'Check the path: the directory of cert-service is /acme/directory.'
    yield say('fault', `there is no directory: ${why}`, advice)
    return undefined
  }
  const refused = texts.flatMap(([name, text]) => refusalOf(from, name, text))
  yield* refused
  if (refused.length > 0) return undefined
  const urls = Object.fromEntries(texts.map(([name, text]) => [name, new URL(text)]))
  const origins = new Set(Object.values(urls).map(({ origin }) => origin))
  origins.delete(from.origin)
  if (origins.size === 0) yield say('ok', `the directory has its URLs at ${from.origin}`)
  else yield say('warning', `the directory has URLs at ${[...origins].join(', ')}`, PROXY)
  yield* judgeMeta(Object(meta))
  if (urls.renewalInfo) yield say('ok', 'clients are told when to renew (ARI)')
  else yield say('warning', 'clients are not told when to renew (ARI)', 'They go by the lifetime.')
  return urls
}

function refusalOf(from: URL, name: string, text: string): Finding[] {
  try {
    parseAdvertisedUrl(text, { from })
    return []
  } catch (error) {
    if (!(error instanceof NetError)) throw error
    return [say('fault', `${name} is ${text}: ${error.message}`, PROXY)]
  }
}

function* judgeMeta(meta: Readonly<Record<string, unknown>>): Findings {
  if (meta.externalAccountRequired === true)
    yield say('ok', 'an account needs a key of the server (external account binding)')
  for (const name of ['termsOfService', 'website'])
    if (typeof meta[name] === 'string') yield say('ok', `${name}: ${meta[name]}`)
  const profiles = Object.keys(Object(meta.profiles))
  if (profiles.length > 0) yield say('ok', `profiles: ${profiles.join(', ')}`)
}

const nonceOf = ({ headers }: FetchAnswer) =>
  /^[\w-]+$/.exec(`${headers['replay-nonce'] ?? ''}`)?.[0]

/** Reads what newNonce answered to HEAD and then to GET (RFC 8555 section 7.2). */
export function* judgeNonces(answers: readonly FetchAnswer[]): Findings {
  const nonces = answers.map(nonceOf)
  const statuses = answers.map(({ status }) => status)
  if (!statuses.every((status) => status === 200 || status === 204) || nonces.includes(undefined))
    return yield say('fault', `newNonce gives no nonce (${statuses.join(', ')})`, PASS_ON)
  if (new Set(nonces).size < nonces.length)
    return yield say('fault', 'newNonce gives the same nonce twice', CACHE)
  yield say('ok', 'newNonce gives nonces')
  if (!answers.every(({ headers }) => headers['cache-control']?.includes('no-store')))
    yield say('warning', 'newNonce does not say Cache-Control: no-store', CACHE)
}

const BAD_NONCE = 'urn:ietf:params:acme:error:badNonce'

/** Reads the answer to a request whose nonce is unknown to the server (RFC 8555 sections 6.5, 6.7). */
export function* judgeRefusal(answer: FetchAnswer): Findings {
  const { status, headers, body } = answer
  const { type } = Object(parseJson(body))
  if (status < 400 || !headers['content-type']?.startsWith('application/problem+json'))
    yield say('fault', `an error is no problem document (${status})`, PASS_ON)
  else if (type !== BAD_NONCE)
    yield say('warning', `an unknown nonce is not refused as ${BAD_NONCE}`, 'Clients give up then.')
  else if (nonceOf(answer) === undefined)
    yield say('warning', 'errors have no Replay-Nonce', 'Clients need another request.')
  else yield say('ok', 'errors are problem documents with a new nonce')
}

const CLOCKS_DIFFER_MS = 60_000

export function* judgeClock({ headers }: FetchAnswer, now: number): Findings {
  const ahead = Date.parse(headers.date ?? '') - now
  if (Math.abs(ahead) <= CLOCKS_DIFFER_MS) yield say('ok', 'both clocks agree')
  else if (!Number.isNaN(ahead)) {
    const how = `${Math.round(Math.abs(ahead) / 1_000)} s ${ahead > 0 ? 'ahead' : 'behind'}`
    const advice = 'Set both clocks: a new certificate may seem not to be valid yet, or expired.'
    yield say('warning', `the clock of the server is ${how}`, advice)
  }
}

export function* judgeOrder(
  { status, error, identifiers }: Pick<AcmeOrder, 'status' | 'error' | 'identifiers'>,
  authorizations: readonly Pick<AcmeAuthorization, 'identifier' | 'status' | 'challenges'>[],
): Findings {
  const names = identifiers.map(({ value }) => value).join(', ')
  if (error) yield say('fault', `the order for ${names} is ${status}: ${error.message}`)
  else yield say('ok', `the order for ${names} is ${status}`)
  for (const { identifier, status, challenges } of authorizations) {
    const ways = challenges.map(({ type }) => type).join(' or ')
    const open = status === 'pending' ? `, to be proved by ${ways}` : ''
    yield say('ok', `the authorization of ${identifier.value} is ${status}${open}`)
  }
}
