import { PkiError } from './errors.ts'

/** The labels of the PEM blocks that this package writes (RFC 7468). */
export type PemLabel =
  | 'CERTIFICATE'
  | 'PRIVATE KEY'
  | 'PUBLIC KEY'
  | 'X509 CRL'
  | 'CERTIFICATE REQUEST'

const MAX_LENGTH = 1 << 20
const BEGIN = /-----BEGIN /g
const BLOCK = /-----BEGIN ([A-Z0-9 ]{1,40})-----([A-Za-z0-9+/=\s]*)-----END \1-----/g

/** One PEM block: lines of 64 characters, and a newline at the end. */
export function toPem(label: PemLabel, der: Uint8Array): string {
  const base64 = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('base64')
  let lines = ''
  for (let i = 0; i < base64.length; i += 64) lines += `${base64.slice(i, i + 64)}\n`
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`
}

/** A certificate and those above it in one PEM text, leaf first. */
export function buildChainPem(leaf: Uint8Array, chain: readonly Uint8Array[]): string {
  return [leaf, ...chain].map((der) => toPem('CERTIFICATE', der)).join('')
}

/**
 * The DER of each block in the text, or of each block with that label. Text between blocks is
 * passed over; a block that is not whole is refused, and so is a text without any.
 *
 * @throws PkiError `PKI_PEM_INVALID`
 */
export function fromPem(text: string, label?: string): Buffer[] {
  if (text.length > MAX_LENGTH) fail('the text is longer than 1 MiB')
  const blocks = [...text.matchAll(BLOCK)]
  if (blocks.length !== (text.match(BEGIN)?.length ?? 0)) fail('a block is not whole')
  const wanted = blocks.filter(([, found]) => label === undefined || found === label)
  if (wanted.length === 0) fail(`there is no ${label ?? 'PEM'} block`)
  return wanted.map(([, , body = '']) => decode(body.replace(/\s/g, '')))
}

function decode(base64: string): Buffer {
  const der = Buffer.from(base64, 'base64')
  if (der.length === 0 || der.toString('base64') !== base64) fail('a block is not valid base64')
  return der
}

function fail(why: string): never {
  throw new PkiError('PKI_PEM_INVALID', why)
}
