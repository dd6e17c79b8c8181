import { X509Certificate } from 'node:crypto'
import { encode } from '../src/der.ts'
import { caConstraint, caKeyUsage, keyIdentifier, subjectKeyId } from '../src/extensions.ts'
import {
  type Authority,
  clampValidity,
  createIntermediate,
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  type KeyPair,
  loadAuthority,
  parseName,
  parseNameRule,
} from '../src/index.ts'
import { distinguishedName, signCertificate, signerOf } from '../src/signer.ts'
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

/** An authority below a root that may sign intermediates. */
export function makeUpper(root: Authority, lifetimeMs: number): Authority {
  const { spki, privateKey } = generateP256()
  const subject = encode(distinguishedName('Upper'))
  const certificate = signCertificate(signerOf(root), {
    serial: createSerial(NOW),
    subject,
    spki,
    notBefore: NOW,
    notAfter: NOW + lifetimeMs,
    extensions: [caConstraint(), caKeyUsage(), subjectKeyId(keyIdentifier(spki))],
  })
  return loadAuthority({ certificate, key: privateKey, now: NOW })
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
