import { X509Certificate } from 'node:crypto'
import {
  authorityKeyId,
  caConstraint,
  caKeyUsage,
  context,
  criticalExtension,
  type Der,
  element,
  encode,
  keyIdentifier,
  OID,
  oid,
  sequence,
  set,
  subjectKeyId,
  utf8,
} from '../src/der.ts'
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

/** An authority below a root that may sign intermediates, with name constraints if there are some. */
export function makeUpper(
  root: Authority,
  lifetimeMs: number,
  constraints?: Der,
  {
    spki,
    privateKey,
    more = [],
  }: Pick<KeyPair, 'spki' | 'privateKey'> & { more?: Der[] } = generateP256(),
): Authority {
  const subject = encode(distinguishedName('Upper'))
  const certificate = signCertificate(signerOf(root), {
    serial: createSerial(NOW),
    subject,
    spki,
    notBefore: root.info.notBefore,
    notAfter: root.info.notBefore + lifetimeMs,
    extensions: [
      caConstraint(),
      caKeyUsage(),
      subjectKeyId(keyIdentifier(spki)),
      authorityKeyId(root.info.skid ? Buffer.from(root.info.skid, 'hex') : ''),
      ...(constraints ? [criticalExtension(OID.nameConstraints, constraints)] : []),
      ...more,
    ],
  })
  return loadAuthority({ certificate, key: privateKey, now: root.info.notBefore })
}

/**
 * Name constraints of `+` what is permitted and `-` what is excluded: a domain, address and mask in hex
 * after `#`, or an organisation after `O=`.
 */
export function constraintsOf(texts: readonly string[]): Der {
  const subtree = (text: string) => {
    if (text.startsWith('#')) return sequence(element(0x87, Buffer.from(text.slice(1), 'hex')))
    if (!text.startsWith('O=')) return sequence(element(0x82, text))
    const organisation = sequence(oid('2.5.4.10'), utf8(text.slice(2)))
    return sequence(context(4, sequence(set(organisation))))
  }
  const group = (tag: number, sign: string) => {
    const chosen = texts
      .filter((text) => text.startsWith(sign))
      .map((text) => subtree(text.slice(1)))
    return chosen.length > 0 ? [context(tag, ...chosen)] : []
  }
  return sequence(...group(0, '+'), ...group(1, '-'))
}

/** A leaf for 7 days, with a key of its own unless one is given. */
export function issue(
  authority: Authority,
  names: string[],
  {
    now = NOW,
    key = generateP256(),
    crlUrl,
    withoutSubject = false,
  }: { now?: number; key?: KeyPair; crlUrl?: string; withoutSubject?: boolean } = {},
) {
  const signer = createLeafSigner(authority, { withoutSubject, ...(crlUrl && { crlUrl }) })
  const der = signer.sign({
    spki: key.spki,
    keyType: key.type,
    names: names.map(parseName),
    serial: createSerial(NOW),
    ...clampValidity(authority, { notBefore: now - 60_000, notAfter: now + 7 * DAY }),
  })
  return { der, key, x509: new X509Certificate(der) }
}
