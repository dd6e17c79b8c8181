// Signatures of requests, by a fixed table of algorithms with their parameters.

import { constants, verify } from 'node:crypto'
import { attempt } from '@gatehouse/net'
import { type CsrFields, parts, readAlgorithm } from './csr-fields.ts'
import { children, type Element, NULL, toPem } from './der.ts'
import { PkiError } from './errors.ts'
import { decodePublicKey, type PublicKey } from './keys.ts'

interface Algorithm {
  /** The start of the types of keys that it is for. */
  readonly keys: 'rsa' | 'p' | 'ed25519'
  /** `null` if the algorithm implies it, or if the parameters name it, as those of RSA-PSS do. */
  readonly digest: string | null
  readonly parameters: 'absent' | 'null' | 'pss'
}

/** RFC 8017 appendix A.2, RFC 5758 section 3.2, RFC 8410 section 3. */
const ALGORITHMS: ReadonlyMap<string, Algorithm> = new Map([
  ['1.2.840.113549.1.1.11', { keys: 'rsa', digest: 'sha256', parameters: 'null' }],
  ['1.2.840.113549.1.1.12', { keys: 'rsa', digest: 'sha384', parameters: 'null' }],
  ['1.2.840.113549.1.1.13', { keys: 'rsa', digest: 'sha512', parameters: 'null' }],
  ['1.2.840.113549.1.1.10', { keys: 'rsa', digest: null, parameters: 'pss' }],
  ['1.2.840.10045.4.3.2', { keys: 'p', digest: 'sha256', parameters: 'absent' }],
  ['1.2.840.10045.4.3.3', { keys: 'p', digest: 'sha384', parameters: 'absent' }],
  ['1.2.840.10045.4.3.4', { keys: 'p', digest: 'sha512', parameters: 'absent' }],
  ['1.3.101.112', { keys: 'ed25519', digest: null, parameters: 'absent' }],
])
const HASHES: ReadonlyMap<string, string> = new Map([
  ['2.16.840.1.101.3.4.2.1', 'sha256'],
  ['2.16.840.1.101.3.4.2.2', 'sha384'],
  ['2.16.840.1.101.3.4.2.3', 'sha512'],
])
const MGF1 = '1.2.840.113549.1.1.8'

/** Verifies the signature of a request over the received bytes. */
export function verifyCsr(csr: CsrFields, { type, spki }: PublicKey): void {
  const { id, parameters } = csr.algorithm
  const algorithm = ALGORITHMS.get(id) ?? fail(`the algorithm ${id} is not accepted`)
  if (!type.startsWith(algorithm.keys)) fail(`the algorithm ${id} does not fit a ${type} key`)
  const options = readOptions(algorithm, parameters) ?? fail(`${id} has parameters that do not fit`)
  if (isSigned(csr, options, spki)) return
  decodePublicKey(spki)
  fail('it is not by the key in the request')
}

interface VerifyOptions {
  readonly digest: string | null
  readonly padding?: number
  readonly saltLength?: number
}

function readOptions(
  { parameters: form, digest }: Algorithm,
  parameters: Element | undefined,
): VerifyOptions | undefined {
  if (form === 'pss') return readPss(parameters)
  if (parameters === undefined) return { digest }
  return form === 'null' && parameters.raw.equals(NULL) ? { digest } : undefined
}

/** RFC 4055 section 3.1. The hash must be explicit, because the default is SHA-1, and the same for MGF1. */
function readPss(parameters: Element | undefined): VerifyOptions | undefined {
  return attempt(() => {
    const [hash, mgf, salt, ...more] = parts(parameters, 'RSA-PSS')
    if (more.length > 0 || hash?.tag !== 0xa0 || mgf?.tag !== 0xa1) return undefined
    const digest = readHash(children(hash))
    const generator = readAlgorithm(onlyOf(children(mgf)))
    const saltLength = salt ? readSaltLength(salt) : 20
    if (generator.id !== MGF1 || digest === undefined || saltLength === undefined) return undefined
    if (readHash(generator.parameters ? [generator.parameters] : []) !== digest) return undefined
    return { digest, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength }
  })
}

function readHash(elements: readonly Element[]): string | undefined {
  const { id, parameters } = readAlgorithm(onlyOf(elements))
  return parameters && !parameters.raw.equals(NULL) ? undefined : HASHES.get(id)
}

/** Up to 127 bytes, because no accepted hash has more than 64. */
function readSaltLength({ tag, content }: Element): number | undefined {
  const integer = tag === 0xa2 && content[0] === 0x02 && content[1] === 1 && content.length === 3
  const length = content[2] ?? 0
  return integer && length < 0x80 ? length : undefined
}

const onlyOf = (elements: readonly Element[]) => (elements.length === 1 ? elements[0] : undefined)

function isSigned(
  { info, signature }: CsrFields,
  { digest, ...options }: VerifyOptions,
  spki: Buffer,
): boolean {
  // As PEM, because Node takes twice as long to accept a DER key.
  const pem = toPem('PUBLIC KEY', spki)
  const key = options.padding === undefined ? pem : { key: pem, ...options }
  return attempt(() => verify(digest, info, key, signature)) ?? false
}

function fail(why: string): never {
  throw new PkiError('PKI_CSR_INVALID', `the signature cannot be accepted: ${why}`)
}
