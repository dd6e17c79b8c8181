import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { ServerOptions } from 'node:https'
import { ConfigError, serverTlsOptions, type TlsCredentials } from '@gatehouse/service-kit'

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

/**
 * Reads the CA of client certificates.
 *
 * @throws ConfigError CONFIG_TLS_INVALID
 */
export async function readClientCa(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined
  try {
    const pem = await readFile(file, 'utf8')
    // Node would take a file without any certificate, and then trust all public CAs.
    new X509Certificate(pem)
    return pem
  } catch (cause) {
    throw new ConfigError('CONFIG_TLS_INVALID', `${file} holds no CA certificate in PEM`, { cause })
  }
}
