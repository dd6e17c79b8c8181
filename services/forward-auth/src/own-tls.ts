import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { ServerOptions } from 'node:https'
import { createSecureContext } from 'node:tls'
import {
  ConfigError,
  serverTlsOptions,
  type TlsCredentials,
  watchFiles,
} from '@gatehouse/service-kit'
import type { Logger } from './log.ts'

/**
 * Options of the HTTPS server. With a client CA it asks for certificates and demands none: who shows
 * none is judged by address.
 */
export function tlsOptions(
  credentials: TlsCredentials,
  clientCa: string | undefined,
): ServerOptions {
  const client = { ca: clientCa, requestCert: true, rejectUnauthorized: false }
  return { ...serverTlsOptions(credentials), ...(clientCa !== undefined && client) }
}

/** The CA of client certificates, which changes with its file. */
export interface ClientCa {
  /** In PEM; undefined if none is configured. */
  current(): string | undefined
  /**
   * Reads the file now, and gives the function that takes up what it holds.
   *
   * @throws ConfigError CONFIG_TLS_INVALID: the CA in use stays
   */
  prepare(): Promise<() => void>
  close(): void
}

/**
 * Reads the CA of client certificates, and again whenever its file changes. One that cannot be used
 * is refused with a log line, and the one in use stays.
 *
 * @param onChange - told after a change
 * @throws ConfigError CONFIG_TLS_INVALID
 */
export async function openClientCa({
  file,
  onChange,
  log,
}: {
  readonly file: string | undefined
  readonly onChange: () => void
  readonly log: Logger
}): Promise<ClientCa> {
  if (file === undefined)
    return { current: () => undefined, prepare: async () => () => {}, close() {} }
  let current = await readClientCa(file)

  async function prepare() {
    const fresh = await readClientCa(file as string)
    return () => {
      if (fresh === current) return
      current = fresh
      onChange()
      log.info({ file }, 'client CA replaced')
    }
  }
  const watcher = watchFiles([file], () => {
    prepare().then(
      (commit) => commit(),
      (error) => log.error({ err: error, file }, 'new client CA refused, the old one stays'),
    )
  })
  return { current: () => current, prepare, close: watcher.close }
}

async function readClientCa(file: string): Promise<string> {
  try {
    const pem = await readFile(file, 'utf8')
    // Node would take a file without any certificate, and then trust all public CAs.
    new X509Certificate(pem)
    createSecureContext({ ca: pem })
    return pem
  } catch (cause) {
    throw new ConfigError('CONFIG_TLS_INVALID', `${file} holds no CA certificate in PEM`, { cause })
  }
}
