import {
  type Csr,
  type KeyType,
  type Name,
  PkiError,
  parseCsr,
  parseName,
  readKnownCsr,
} from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Issuer, Issuers } from '../issuers/issuer.ts'
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

/** @throws CertError for names that the caller may not have */
type Authorize = (names: readonly Name[]) => void

/**
 * Reads a request: names normalised, issuer chosen, proof of possession checked, lineage made. The
 * names of a `csr` are asked for like those in `names`. `authorize` throws for names that the caller
 * may not have: who may not is told nothing of the issuers.
 *
 * @throws PkiError or CertError with `errors`, which point to the member at fault
 */
export function parseRequest(
  fields: RequestFields,
  issuers: Issuers,
  authorize: Authorize,
): CertificateRequest {
  const names = new Map<string, Name>()
  addName(names, fields.domain, '/domain')
  fields.names?.forEach((text, index) => {
    addName(names, text, `/names/${index}`)
  })
  if (fields.csr !== undefined) return withCsr(fields.csr, fields, names, issuers, authorize)
  authorize([...names.values()])
  return choose(issuers, [...names.values()], null, fields)
}

/** The request that a stored certificate or order was made for, to its own issuer. */
export function restoreRequest(stored: Stored, issuers: Issuers): CertificateRequest | undefined {
  const issuer = issuers.find(stored.issuer)
  return issuer && requestTo(issuer, restore(stored))
}

/** The request that a stored certificate or order would be made by today. */
export function rerouteRequest(stored: Stored, issuers: Issuers): CertificateRequest | undefined {
  const restored = restore(stored)
  return requestTo(issuers.choose(restored.names), restored)
}

/** The same certificate of another issuer; undefined where that cannot sign it. */
export function requestTo(
  issuer: Issuer,
  { names, keyType, csr }: Pick<CertificateRequest, 'names' | 'keyType' | 'csr'>,
): CertificateRequest | undefined {
  const signs = names.every((name) => issuer.permits(name)) && !issuer.objection?.(names, csr)
  return signs && certifies(issuer, keyType) ? complete(issuer, names, keyType, csr) : undefined
}

interface Stored {
  readonly issuer: string
  readonly names: readonly string[]
  readonly keyType: KeyType
  readonly csr: Uint8Array | null
}

function restore({ names, keyType, csr }: Stored) {
  return { names: names.map(parseName), keyType, csr: csr && readKnownCsr(csr) }
}

function withCsr(
  pem: string,
  fields: RequestFields,
  names: Map<string, Name>,
  issuers: Issuers,
  authorize: Authorize,
): CertificateRequest {
  const { keyType } = fields
  const csr = readCsr(pem)
  if (keyType !== undefined && keyType !== csr.keyType)
    pointTo('/keyType', new CertError('CERT_KEY_TYPE_CONFLICT', `the CSR has a ${csr.keyType} key`))
  for (const { text } of csr.names) addName(names, text, '/csr')
  if (names.size > MAX_NAMES)
    pointTo('/csr', new PkiError('PKI_CSR_INVALID', `more than ${MAX_NAMES} names in all`))
  authorize([...names.values()])
  return choose(issuers, [...names.values()], csr, fields)
}

function readCsr(pem: string): Csr {
  try {
    return parseCsr(pem)
  } catch (error) {
    return pointTo('/csr', error)
  }
}

function choose(
  issuers: Issuers,
  names: readonly Name[],
  csr: Csr | null,
  fields: RequestFields,
): CertificateRequest {
  const issuer = issuers.choose(names)
  for (const name of names) if (!issuer.permits(name)) refuse(name, fields)
  const objection = issuer.objection?.(names, csr)
  if (objection !== undefined)
    pointTo(csr ? '/csr' : '/domain', new CertError('CERT_NOT_PERMITTED', objection))
  const keyType = csr?.keyType ?? fields.keyType ?? issuer.keyType ?? 'p256'
  if (!certifies(issuer, keyType)) refuseKey(keyType, issuer, csr ? '/csr' : '/keyType')
  return complete(issuer, names, keyType, csr)
}

function certifies({ keyTypes }: Issuer, keyType: KeyType): boolean {
  return keyTypes?.includes(keyType) ?? true
}

function refuseKey(keyType: KeyType, { name, keyTypes = [] }: Issuer, pointer: string): never {
  const why = `the issuer ${name} certifies no ${keyType} keys, only ${keyTypes.join(', ')}`
  pointTo(pointer, new CertError('CERT_KEY_TYPE_REFUSED', why))
}

function refuse({ text }: Name, fields: RequestFields): never {
  const isIt = (given: string) => parseName(given).text === text
  const index = fields.names?.findIndex(isIt) ?? -1
  const pointer = isIt(fields.domain) ? '/domain' : index < 0 ? '/csr' : `/names/${index}`
  const why = `${text} is outside of \`ca.permitted\`, and no other issuer holds all of the names`
  pointTo(pointer, new CertError('CERT_NOT_PERMITTED', why))
}

function addName(names: Map<string, Name>, text: string, pointer: string): void {
  try {
    const name = parseName(text)
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
  names: readonly Name[],
  keyType: KeyType,
  csr: Csr | null,
): CertificateRequest {
  const lineage = lineageOf({ issuer, names, keyType, csr })
  return { lineage, issuer, names, keyType, csr }
}
