import { children, type Element, readAll, readOid } from '../../packages/pki/src/der.ts'
import { plainSerial } from './acme-ca.ts'

const INTEGER = 0x02
const SEQUENCE = 0x30
const EXTENSIONS = 0xa0
const CRL_NUMBER = '2.5.29.20'
const AUTHORITY_KEY = '2.5.29.35'

export interface RevocationList {
  /** Key identifier, hexadecimal. */
  readonly issuer: string
  readonly number: bigint
  readonly serials: ReadonlySet<string>
}

/** Reads a CRL (RFC 5280 section 5), as far as it is looked at here. */
export function readCrl(der: Buffer): RevocationList {
  const [list] = readAll(der)
  const fields = children(children(list)[0])
  const extensions = children(children(fields.find(({ tag }) => tag === EXTENSIONS))[0])
  const extensionOf = (wanted: string): Element | undefined => {
    const found = extensions.find((one) => readOid(children(one)[0]?.content ?? der) === wanted)
    return found && readAll(children(found).at(-1)?.content ?? der)[0]
  }
  // Version, algorithm, issuer, two times, and then the list, unless it is empty.
  const revoked = fields.slice(5).find(({ tag }) => tag === SEQUENCE)
  const numberOf = (one: Element | undefined) =>
    one?.tag === INTEGER ? one.content.toString('hex') : ''
  return {
    issuer: children(extensionOf(AUTHORITY_KEY))[0]?.content.toString('hex') ?? '',
    number: BigInt(`0x${numberOf(extensionOf(CRL_NUMBER)) || 0}`),
    serials: new Set(children(revoked).map((one) => plainSerial(numberOf(children(one)[0])))),
  }
}
