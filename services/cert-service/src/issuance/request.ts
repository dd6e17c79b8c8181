import {
  type CertificateRequest as Csr,
  type KeyType,
  type Name,
  PkiError,
  parseCsr,
  parseName,
} from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Issuer } from '../issuers/issuer.ts'
import { lineageOf } from './lineage.ts'

/** A certificate holds no more names than this. */
export const MAX_NAMES = 100

/** A certificate that somebody wants, in canonical form. */
export interface CertificateRequest {
  readonly lineage: string
  readonly issuer: Issuer
  /** The one it is asked for first; no name twice. */
  readonly names: readonly Name[]
  readonly keyType: KeyType
  /** The caller's own request; `null` where the key is ours. */
  readonly csr: Csr | null
}

/** What callers and the configuration write. */
export interface RequestFields {
  readonly domain: string
  readonly names?: readonly string[] | undefined
  readonly csr?: string | undefined
  readonly keyType?: KeyType | undefined
}

/**
 * Reads a request: names normalised, proof of possession checked, lineage made. The names of
 * a `csr` are asked for like those in `names`. Only a `csr` makes it wait.
 *
 * @throws PkiError or CertError with `errors`, which point to the member at fault
 */
export function parseRequest(
  fields: RequestFields,
  issuer: Issuer,
): CertificateRequest | Promise<CertificateRequest> {
  const names = new Map<string, Name>()
  addName(names, fields.domain, '/domain', issuer)
  fields.names?.forEach((text, index) => {
    addName(names, text, `/names/${index}`, issuer)
  })
  if (fields.csr !== undefined) return withCsr(fields.csr, fields.keyType, names, issuer)
  return complete(issuer, names, fields.keyType ?? 'p256', null)
}

/** The request that a stored certificate or order was made for. */
export async function restoreRequest(
  stored: {
    readonly names: readonly string[]
    readonly keyType: KeyType
    readonly csr: Uint8Array | null
  },
  issuer: Issuer,
): Promise<CertificateRequest> {
  const names = new Map<string, Name>()
  for (const text of stored.names) addName(names, text, '', issuer)
  return complete(issuer, names, stored.keyType, stored.csr && (await parseCsr(stored.csr)))
}

async function withCsr(
  pem: string,
  keyType: KeyType | undefined,
  names: Map<string, Name>,
  issuer: Issuer,
): Promise<CertificateRequest> {
  const csr = await parseCsr(pem).catch((error) => pointTo('/csr', error))
  if (keyType !== undefined && keyType !== csr.keyType)
    pointTo('/keyType', new CertError('CERT_KEY_TYPE_CONFLICT', `the CSR has a ${csr.keyType} key`))
  for (const name of csr.names) addName(names, name.text, '/csr', issuer)
  if (names.size > MAX_NAMES)
    pointTo('/csr', new PkiError('PKI_CSR_INVALID', `more than ${MAX_NAMES} names in all`))
  return complete(issuer, names, csr.keyType, csr)
}

function addName(names: Map<string, Name>, text: string, pointer: string, issuer: Issuer): void {
  try {
    const name = parseName(text)
    if (!issuer.permits(name))
      throw new CertError('CERT_NOT_PERMITTED', `${name.text} is outside of \`ca.permitted\``)
    names.set(name.text, name)
  } catch (error) {
    pointTo(pointer, error)
  }
}

/** Tells which member of the body an error is about. */
function pointTo(pointer: string, error: unknown): never {
  if (error instanceof PkiError || error instanceof CertError)
    Object.assign(error, { errors: [{ pointer, detail: error.message }] })
  throw error
}

function complete(
  issuer: Issuer,
  named: ReadonlyMap<string, Name>,
  keyType: KeyType,
  csr: Csr | null,
): CertificateRequest {
  const names = [...named.values()]
  const lineage = lineageOf({ issuer: issuer.name, names, keyType, csr })
  return { lineage, issuer, names, keyType, csr }
}
