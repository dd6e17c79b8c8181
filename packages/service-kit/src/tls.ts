import { constants, createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server, ServerOptions } from 'node:https'
import { createSecureContext } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Clock } from './clock.ts'
import { ConfigError } from './errors.ts'
import { watchFiles } from './files.ts'

/** How often to look whether the own certificate is due; the first retry comes as soon. */
const CHECK_MS = 60_000
/** Clocks that are set differ by no more than this. */
const CLOCKS_DIFFER_MS = 60_000
const RETRY_MAX_MS = 3_600_000
/** Node's own is two minutes, for which whoever begins a handshake holds a connection. */
const HANDSHAKE_TIMEOUT_MS = 10_000

/** PEM texts of a private key and of its certificate chain, leaf first. */
export interface TlsCredentials {
  readonly key: string
  readonly cert: string
}

/** Where a listener's credentials come from, and go on coming from. */
export interface TlsSource {
  current(): TlsCredentials
  close(): void
}

/**
 * Credentials from two files, read again when these change. A pair that cannot be used is refused
 * with a log line and the one in use stays.
 *
 * @throws ConfigError CONFIG_TLS_INVALID when the first pair cannot be used
 */
export async function tlsFromFiles(options: {
  certFile: string
  keyFile: string
  onChange(credentials: TlsCredentials): void
  log: Logger
}): Promise<TlsSource> {
  const { certFile, keyFile, onChange, log } = options
  let current = await readCredentials(certFile, keyFile)

  async function reload(): Promise<void> {
    try {
      const next = await readCredentials(certFile, keyFile)
      if (next.cert === current.cert && next.key === current.key) return
      current = next
      onChange(current)
      log.info({ certFile, notAfter: notAfter(current) }, 'TLS certificate replaced')
    } catch (error) {
      log.error({ err: error, certFile }, 'new TLS certificate refused, the old one stays')
    }
  }
  const watcher = watchFiles([certFile, keyFile], () => void reload())
  return { current: () => current, close: watcher.close }
}

/** Credentials that a service issued to itself; times in milliseconds since the epoch. */
export interface SelfIssued extends TlsCredentials {
  readonly notBefore: number
  readonly renewAt: number
}

/**
 * Credentials that the service issues to itself, renewed at `renewAt`, or at once if a clock that was
 * ahead dated them. A renewal that fails is tried again, after a minute at first and an hour at most.
 */
export async function tlsSelfRenewed(options: {
  issue(): Promise<SelfIssued>
  clock: Clock
  onChange(credentials: TlsCredentials): void
  log: Logger
}): Promise<TlsSource> {
  const { issue, clock, onChange, log } = options
  let current = await issue()
  let isClosed = false
  let timer = checkAfter(CHECK_MS, CHECK_MS)

  // A timer that ends at `renewAt` would not follow a clock that is set meanwhile.
  function checkAfter(ms: number, retryMs: number) {
    return clock.setTimer(() => void check(retryMs), ms)
  }
  async function check(retryMs: number): Promise<void> {
    const wasDue = isDue(current, clock.now())
    if (wasDue) await renew()
    if (isClosed) return
    const isStillDue = wasDue && isDue(current, clock.now())
    timer = isStillDue
      ? checkAfter(retryMs, Math.min(retryMs * 2, RETRY_MAX_MS))
      : checkAfter(CHECK_MS, CHECK_MS)
  }
  async function renew(): Promise<void> {
    try {
      const next = await issue()
      if (isClosed) return
      current = next
      onChange(current)
    } catch (error) {
      log.error({ err: error }, 'own TLS certificate not renewed')
    }
  }
  return {
    current: () => current,
    close() {
      isClosed = true
      timer.cancel()
    },
  }
}

function isDue({ notBefore, renewAt }: SelfIssued, now: number): boolean {
  return renewAt <= now || notBefore > now + CLOCKS_DIFFER_MS
}

/** Options of an https server: TLS 1.2 or newer, forward secrecy and AEAD only, no renegotiation. */
export function serverTlsOptions({ key, cert }: TlsCredentials): ServerOptions {
  return {
    key,
    cert,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  }
}

/** Gives the running listener new credentials; connections that are open keep theirs. */
export function applyTls(app: FastifyInstance, credentials: TlsCredentials): void {
  ;(app.server as Server).setSecureContext(serverTlsOptions(credentials))
}

const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':')

async function readCredentials(certFile: string, keyFile: string): Promise<TlsCredentials> {
  try {
    const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')])
    assertPair({ cert, key })
    return { cert, key }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new ConfigError(
      'CONFIG_TLS_INVALID',
      `${certFile} and ${keyFile} cannot be used as certificate and key: ${code ?? message}`,
      { cause: error },
    )
  }
}

/** A TLS context alone would take a certificate without a key, as while a file is being rewritten. */
function assertPair({ cert, key }: TlsCredentials): void {
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
    throw new Error('the key is not that of the certificate')
  createSecureContext({ cert, key })
}

function notAfter({ cert }: TlsCredentials): string {
  return new X509Certificate(cert).validToDate.toISOString()
}
