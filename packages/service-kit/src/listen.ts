import type { AddressInfo, Server } from 'node:net'
import { ConfigError } from './errors.ts'

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use by another program',
  EACCES: 'this user may not use that port',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ENOTFOUND: 'the host name is not known',
}

/** The error, in one line, of a listener that could not start. */
export function listenError(error: unknown, address: { host: string; port: number }): ConfigError {
  const { code = '' } = error as NodeJS.ErrnoException
  const where = `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`
  return new ConfigError(
    'CONFIG_LISTEN_FAILED',
    `cannot listen on ${where}: ${REASONS[code] ?? code}`,
    { cause: error },
  )
}

/** Starts a plain HTTP server and gives its URL without a path. */
export async function listen(server: Server, address: { host: string; port: number }) {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(address, () => {
        server.off('error', reject)
        resolve()
      })
    })
  } catch (error) {
    throw listenError(error, address)
  }
  const { address: host, port, family } = server.address() as AddressInfo
  return `http://${family === 'IPv6' ? `[${host}]` : host}:${port}`
}
