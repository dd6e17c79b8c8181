import { once } from 'node:events'
import { connect, getCACertificates } from 'node:tls'
import {
  ACME_ERRORS,
  AcmeError,
  createTransport,
  type ExternalAccount,
  newAccount,
  newOrder,
  readAuthorization,
  signRequest,
  toIdentifier,
} from '@gatehouse/acme'
import { type BoundedFetch, type Clock, isIp, NET_ERRORS, NetError } from '@gatehouse/net'
import { generateP256, type Name } from '@gatehouse/pki'
import * as judge from './findings.ts'

const TIMEOUT_MS = 10_000
const AGENT = { 'user-agent': 'gatehouse-acme-check' }
const ANY = Array.from({ length: 400 }, (_, i) => 200 + i)

/** The input of a check: a directory, and with a key or names also an account, which ends at once. */
export interface AcmeCheck {
  readonly url: URL
  /** The roots that `fetch` trusts in place of the system's. */
  readonly caFile?: string | undefined
  readonly externalAccount?: ExternalAccount | undefined
  readonly names: readonly Name[]
  readonly fetch: BoundedFetch
  readonly clock: Clock
  /** Connects by the roots of the file, or of the system. @throws NetError */
  readonly handshake: (url: URL, roots: 'system' | 'file') => Promise<judge.Handshake>
}

type CheckFindings = AsyncGenerator<judge.Finding, void>

/** Does what a client of ACME would do, and says what it met (RFC 8555). */
export async function* checkAcme(check: AcmeCheck): CheckFindings {
  try {
    yield* examine(check)
  } catch (error) {
    if (!(error instanceof NetError || error instanceof AcmeError)) throw error
    yield judge.say('fault', error.message, { ...NET_ERRORS, ...ACME_ERRORS }[error.code].action)
  }
}

async function* examine(check: AcmeCheck): CheckFindings {
  const { url, caFile, externalAccount, names, fetch, clock, handshake } = check
  if (url.protocol === 'https:') {
    const byFile = caFile === undefined ? undefined : await handshake(url, 'file')
    const findings = [...judge.judgeTls(await handshake(url, 'system'), byFile, caFile)]
    yield* findings
    if (findings.some(({ level }) => level === 'fault')) return
  } else yield judge.say('fault', 'the URL is not https', 'Use https: clients refuse other URLs.')
  const ask = (to: URL, method: 'GET' | 'HEAD' = 'GET') =>
    fetch(to, { method, headers: AGENT, status: ANY })
  const answer = await ask(url)
  yield* judge.judgeClock(answer, clock.now())
  const { newNonce, newAccount } = (yield* judge.judgeDirectory(url, answer)) ?? {}
  if (!newNonce || !newAccount) return
  yield* judge.judgeNonces([await ask(newNonce, 'HEAD'), await ask(newNonce)])
  const header = { url: newAccount.href, nonce: Buffer.alloc(16).toString('base64url') }
  const jws = signRequest({ key: generateP256().privateKey }, header, { onlyReturnExisting: true })
  const headers = { ...AGENT, 'content-type': 'application/jose+json' }
  const request = { method: 'POST', headers, body: JSON.stringify(jws), status: ANY } as const
  yield* judge.judgeRefusal(await fetch(newAccount, request))
  if (externalAccount || names.length > 0) yield* tryOut(check)
}

/** Makes an account, places an order that is never finalized, and ends the account. */
async function* tryOut({ url, externalAccount, names, fetch, clock }: AcmeCheck): CheckFindings {
  const userAgent = AGENT['user-agent']
  const transport = createTransport({ directoryUrl: url, fetch, clock, userAgent })
  const { privateKey: key } = generateP256()
  const account = { termsOfServiceAgreed: true, ...(externalAccount && { externalAccount }) }
  const { url: accountUrl } = await transport.send(newAccount(key, account), { key })
  const signer = { key, accountUrl }
  yield judge.say('ok', `an account is made${externalAccount ? ` by ${externalAccount.kid}` : ''}`)
  try {
    if (names.length > 0) {
      const order = await transport.send(newOrder({ identifiers: names.map(toIdentifier) }), signer)
      const read = (link: URL) => transport.send(readAuthorization(link), signer)
      yield* judge.judgeOrder(order, await Promise.all(order.authorizations.map(read)))
    }
  } finally {
    const payload = () => ({ status: 'deactivated' })
    await transport.send({ to: new URL(accountUrl), payload, process: () => {} }, signer)
  }
  yield judge.say('ok', 'the account is deactivated again')
}

/**
 * Connects to a server, whether or not its certificate is accepted.
 * @param ca - the roots; default: those of the system, which most clients trust
 * @throws NetError NET_FETCH_FAILED
 */
export async function shakeHands(
  { hostname, port }: URL,
  ca: string | string[] = getCACertificates('system'),
): Promise<judge.Handshake> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const to = { host, port: Number(port || 443), ...(!isIp(host) && { servername: host }) }
  const socket = connect({ ...to, ca, rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(TIMEOUT_MS) })
    let top = socket.getPeerX509Certificate()
    while (top?.issuerCertificate && top.issuer !== top.subject) top = top.issuerCertificate
    const root = top?.issuer?.replaceAll('\n', ', ') ?? ''
    const refused = socket.authorized ? undefined : `${socket.authorizationError}`
    return { protocol: socket.getProtocol() ?? '', root, refused }
  } catch (cause) {
    const { code, name } = cause as NodeJS.ErrnoException
    const why = name === 'AbortError' ? 'it takes too long' : (code ?? name)
    const message = `no TLS connection to ${hostname}: ${why}`
    throw new NetError('NET_FETCH_FAILED', message, { cause })
  } finally {
    socket.destroy()
  }
}
