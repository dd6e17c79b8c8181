import { generateKeyPairSync, type KeyPairKeyObjectResult, sign } from 'node:crypto'
import { toPem } from '@gatehouse/pki'

export interface CsrOptions {
  /** Signed by a key of its own, unless said. */
  readonly pair?: KeyPairKeyObjectResult
  readonly names?: readonly string[]
  /** Asks for this extended key usage as well: an object identifier in hexadecimal. */
  readonly usage?: string
  /** Signed by another key than it holds. */
  readonly forged?: boolean
  /** Bits of an RSA key, instead of P-256. */
  readonly rsa?: number
  /** In a form that only older versions took: signed with SHA-1, `critical: FALSE` written out. */
  readonly old?: boolean
}

/** A certificate request in PEM, written by hand so that it can be wrong. */
export function makeCsr({
  pair,
  names = [],
  usage,
  forged = false,
  rsa = 0,
  old = false,
}: CsrOptions = {}): string {
  const make = () =>
    rsa > 0
      ? generateKeyPairSync('rsa', { modulusLength: rsa })
      : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const own = pair ?? make()
  const signer = forged ? make() : own
  const spki = own.publicKey.export({ format: 'der', type: 'spki' })
  const version = hex('020100')
  const info = der(0x30, version, der(0x30), spki, der(0xa0, ...request(names, usage, old)))
  const ecdsa = old ? '300906072a8648ce3d0401' : '300a06082a8648ce3d040302'
  const algorithm = hex(rsa > 0 ? '300d06092a864886f70d01010b0500' : ecdsa)
  const signature = sign(old ? 'sha1' : 'sha256', info, signer.privateKey)
  return toPem(
    'CERTIFICATE REQUEST',
    der(0x30, info, algorithm, der(0x03, Buffer.of(0), signature)),
  )
}

/** The attribute that asks for extensions. */
function request(names: readonly string[], usage: string | undefined, old: boolean): Buffer[] {
  const extensions = []
  if (names.length > 0) {
    const san = der(0x30, ...names.map((name) => der(0x82, Buffer.from(name))))
    const critical = old ? [hex('010100')] : []
    extensions.push(der(0x30, hex('0603551d11'), ...critical, der(0x04, san)))
  }
  if (usage !== undefined)
    extensions.push(der(0x30, hex('0603551d25'), der(0x04, der(0x30, der(0x06, hex(usage))))))
  if (extensions.length === 0) return []
  return [der(0x30, hex('06092a864886f70d01090e'), der(0x31, der(0x30, ...extensions)))]
}

function hex(text: string): Buffer {
  return Buffer.from(text, 'hex')
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.of(tag, ...size), content])
}
