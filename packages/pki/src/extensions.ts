// The certificate and CRL extensions of RFC 5280 that an authority writes, in DER.
import { isAscii } from 'node:buffer'
import { hash } from 'node:crypto'
import {
  bits,
  context,
  contextPrimitive,
  type Der,
  type Element,
  element,
  integer,
  octets,
  oid,
  sequence,
  TRUE,
} from './der.ts'
import { PkiError } from './errors.ts'
import { type Name, parseName } from './names.ts'

export const OID = {
  subjectKeyIdentifier: oid('2.5.29.14'),
  keyUsage: oid('2.5.29.15'),
  subjectAltName: oid('2.5.29.17'),
  basicConstraints: oid('2.5.29.19'),
  crlNumber: oid('2.5.29.20'),
  reasonCode: oid('2.5.29.21'),
  nameConstraints: oid('2.5.29.30'),
  crlDistributionPoints: oid('2.5.29.31'),
  authorityKeyIdentifier: oid('2.5.29.35'),
  extendedKeyUsage: oid('2.5.29.37'),
} as const

const SERVER_AUTH = oid('1.3.6.1.5.5.7.3.1')

export const extension = (id: Uint8Array, value: Der) => sequence(id, octets(value))
export const criticalExtension = (id: Uint8Array, value: Der) => sequence(id, TRUE, octets(value))

/** For a leaf. Only RSA keys may encipher keys. */
export const leafKeyUsage = (rsa: boolean) =>
  criticalExtension(OID.keyUsage, rsa ? bits(Buffer.of(0xa0), 5) : bits(Buffer.of(0x80), 7))

/** keyCertSign and cRLSign. */
export const caKeyUsage = () => criticalExtension(OID.keyUsage, bits(Buffer.of(0x06), 1))

export const serverAuth = () => extension(OID.extendedKeyUsage, sequence(SERVER_AUTH))

export const caConstraint = (pathLength?: number) =>
  criticalExtension(
    OID.basicConstraints,
    pathLength === undefined ? sequence(TRUE) : sequence(TRUE, integer(pathLength)),
  )

/**
 * 160 bits of SHA-256 (RFC 7093), taken of the whole SubjectPublicKeyInfo. A digest comes faster as
 * text of one byte per character than as a Buffer, and can be written as it is.
 */
export const keyIdentifier = (spki: Uint8Array): string =>
  hash('sha256', spki, 'binary').slice(0, 20)

export const subjectKeyId = (id: Der) => extension(OID.subjectKeyIdentifier, octets(id))
export const authorityKeyId = (id: Der) =>
  extension(OID.authorityKeyIdentifier, sequence(contextPrimitive(0, id)))

export const crlDistributionPoint = (url: string) => {
  const fullName = context(0, contextPrimitive(6, new URL(url).href))
  return extension(OID.crlDistributionPoints, sequence(sequence(context(0, fullName))))
}

/** Critical where the subject is empty (RFC 5280 4.2.1.6). */
export const subjectAltName = (names: readonly Name[], critical: boolean) => {
  const value = sequence(...names.map(generalName))
  return critical
    ? criticalExtension(OID.subjectAltName, value)
    : extension(OID.subjectAltName, value)
}

export const DNS_NAME = 0x82
export const IP_ADDRESS = 0x87

const generalName = ({ text, ip }: Name) =>
  ip ? element(IP_ADDRESS, ip.bytes) : element(DNS_NAME, text)

/**
 * The name in one entry of a subject alternative name.
 *
 * @throws PkiError `PKI_NAME_INVALID` for other kinds of names, and for what is no name
 */
export function readGeneralName({ tag, content }: Element): Name {
  if (tag === IP_ADDRESS && content.length === 4) return parseName(content.join('.'))
  if (tag === IP_ADDRESS && content.length === 16)
    return parseName(content.toString('hex').replace(/.{4}(?!$)/g, '$&:'))
  if (tag !== DNS_NAME || !isAscii(content)) fail('neither a DNS name nor an IP address')
  const name = parseName(content.toString('latin1'))
  return name.ip ? fail('an IP address that is written as a DNS name') : name
}

function fail(what: string): never {
  throw new PkiError('PKI_NAME_INVALID', `the subject alternative name has ${what}`)
}
