import { X509Certificate } from 'node:crypto'
import {
  type Authority,
  clampValidity,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  type KeyPair,
  parseName,
  parseNameRule,
} from '../src/index.ts'
import 'reflect-metadata'
import * as x509 from '@peculiar/x509'

export { x509 }

export const DAY = 86_400_000
export const NOW = Date.UTC(2026, 5, 15, 12)

/** A root and an intermediate below it. */
export async function makeAuthorities(
  options: { now?: number; permitted?: string[]; crlUrl?: string; key?: KeyPair } = {},
) {
  const { now = NOW, permitted = [], crlUrl, key } = options
  const root = await createRoot({ commonName: 'Test Root', now, ...(key && { key }) })
  const intermediate = await createIntermediate({
    root,
    commonName: 'Test Intermediate',
    now,
    permitted: permitted.map(parseNameRule),
    ...(crlUrl && { crlUrl }),
  })
  return { root, intermediate }
}

/** A leaf for 7 days, with a key of its own unless one is given. */
export function issue(
  authority: Authority,
  names: string[],
  {
    now = NOW,
    key = generateP256(),
    crlUrl,
  }: { now?: number; key?: KeyPair; crlUrl?: string } = {},
) {
  const signer = createLeafSigner(authority, crlUrl ? { crlUrl } : {})
  const der = signer.sign({
    spki: key.spki,
    keyType: key.type,
    names: names.map(parseName),
    serial: createSerial(NOW),
    ...clampValidity(authority, { notBefore: now - 60_000, notAfter: now + 7 * DAY }),
  })
  return { der, key, x509: new X509Certificate(der) }
}
