import type { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { type BoundedFetch, createFetch, type FetchInit } from '@gatehouse/net'
import { certificatesIn, fingerprintOf } from './certificate.ts'
import { ClientError, describe } from './errors.ts'
import type { Get } from './keep.ts'

/** The service reads no more of them, and a file with more is one of public CAs. */
const MAX_NAMED = 64

/** The roots that verify connections to the service, as they are now. */
export type Roots = () => readonly X509Certificate[]

/** Reads a file of roots. @throws ClientError CERT_CLIENT_UNTRUSTED */
export function readRoots(file: string): readonly X509Certificate[] {
  try {
    return certificatesIn(statSync(file).isFIFO() ? '' : readFileSync(file, 'utf8'))
  } catch (cause) {
    const { code, message, syscall } = cause as NodeJS.ErrnoException
    const why = syscall ? `cannot be read (${code})` : `is no file of certificates: ${message}`
    throw new ClientError('CERT_CLIENT_UNTRUSTED', `${file} ${why}`, { cause })
  }
}

/**
 * Opens a file of roots, which is read again for each request. While it cannot be read, the roots of before count.
 * @throws ClientError CERT_CLIENT_UNTRUSTED
 */
export function openRoots(file: string, log: Pick<Get['log'], 'warn'>): Roots {
  let roots = readRoots(file)
  let isBroken = false
  return () => {
    try {
      roots = readRoots(file)
      isBroken = false
    } catch (error) {
      const fault = describe(error as ClientError)
      if (!isBroken) log.warn(fault, 'the roots that the file had before are still trusted')
      isBroken = true
    }
    return roots
  }
}

/** Writes certificates as PEM. */
export const pemOf = (certificates: readonly X509Certificate[]): string => certificates.join('')

/** Makes a fetch that trusts these roots alone, and tells the service which they are. */
export function createTrustingFetch(roots: Roots): BoundedFetch {
  const fetches = new Map<string, BoundedFetch>()
  const fetch = (url: URL | string, { headers, ...init }: FetchInit = {}) => {
    const current = roots()
    const ca = pemOf(current)
    const trustingFetch = fetches.get(ca) ?? createFetch({ ca })
    fetches.set(ca, trustingFetch)
    const ids = current.map((root) => fingerprintOf(root).slice(0, 16))
    const trust = ids.length <= MAX_NAMED ? { 'gatehouse-roots': ids.join() } : {}
    return trustingFetch(url, { ...init, headers: { ...headers, ...trust } })
  }
  const close = async () => void (await Array.fromAsync(fetches.values(), (fetch) => fetch.close()))
  return Object.assign(fetch, { close })
}
