import { constants, createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server, ServerOptions } from 'node:https'
import { createSecureContext } from 'node:tls'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import type { Clock } from './clock.ts'
import { ConfigError } from './errors.ts'
import { watchFiles } from './files.ts'

/** The interval of checks of the own certificate, in ms, and the delay of the first retry. */
const CHECK_MS = 60_000
/** The largest difference between two clocks that are set. */
const CLOCKS_DIFFER_MS = 60_000
const RETRY_MAX_MS = 3_600_000
/** Node's default is two minutes, for which an unfinished handshake holds a connection. */
const HANDSHAKE_TIMEOUT_MS = 10_000

/** PEM texts of a private key and of its certificate chain, leaf first. */
export interface TlsCredentials {
  readonly key: string
  readonly cert: string
}

/** The source of a listener's credentials. */
export interface TlsSource {
  current(): TlsCredentials
  /** Issues others at once, where they are issued here. */
  renew?(): Promise<void>
  close(): void
}

/**
 * Reads credentials from two files, and again when the files change. A pair that cannot be used is
 * logged, and the previous one stays in use.
 *
 * @throws ConfigError CONFIG_TLS_INVALID if the first pair cannot be used
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
      const notAfter = new X509Certificate(next.cert).validToDate.toISOString()
      log.info({ certFile, notAfter }, 'TLS certificate replaced')
    } catch (error) {
      log.error({ err: error, certFile }, 'new TLS certificate refused, the old one stays')
    }
  }
  const watcher = watchFiles([certFile, keyFile], () => void reload())
  return { current: () => current, close: watcher.close }
}

/** Credentials that a service issues to itself. Times are milliseconds since the epoch. */
export interface SelfIssued extends TlsCredentials {
  readonly notBefore: number
  readonly renewAt: number
}

/**
 * Issues credentials to the service itself and renews them at `renewAt`, or at once if they were
 * issued by a clock that was ahead. Failed renewals are retried after one minute, later up to an hour.
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

  // Checked regularly, because the clock may be set before `renewAt`.
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
    renew,
    close() {
      isClosed = true
      timer.cancel()
    },
  }
}

function isDue({ notBefore, renewAt }: SelfIssued, now: number): boolean {
  return renewAt <= now || notBefore > now + CLOCKS_DIFFER_MS
}

/** Options of an HTTPS server: TLS 1.2 or newer, forward secrecy and AEAD only, no renegotiation. */
export function serverTlsOptions(credentials?: TlsCredentials): ServerOptions {
  return {
    ...credentials,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  }
}

/** Sets new credentials for a running listener. Open connections keep the previous ones. */
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
    // A TLS context accepts another key, as while a file is rewritten.
    if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      throw new Error('the key is not that of the certificate')
    createSecureContext({ cert, key })
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
