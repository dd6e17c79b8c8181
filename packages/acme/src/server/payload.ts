import { REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import { type Static, type TObject, Type } from 'typebox'
import { Check, Errors } from 'typebox/schema'
import type { SignedRequest } from './jws.ts'
import { readBase64url, readObject } from './parts.ts'
import { AcmeProblem, malformed } from './problems.ts'

type Payload = Pick<SignedRequest, 'payload'>

/**
 * Reads the payload of a request, by a schema if one is given. Unknown members are kept, and `null`
 * counts as absent, which some clients send for what they do not know.
 *
 * @throws AcmeProblem `malformed`
 */
export function readPayload<S extends TObject>(
  { payload }: Payload,
  schema = Type.Object({}) as TObject as S,
): Static<S> {
  const members = Object.entries(readObject(payload, 'the payload'))
  const value = Object.fromEntries(members.filter(([, member]) => member !== null))
  if (Check(schema, value)) return value
  const [, [fault]] = Errors(schema, value)
  throw malformed(`the payload${fault?.instancePath} ${fault?.message}`.slice(0, MAX_DETAIL))
}

const MAX_DETAIL = 300
/** Bytes. */
const MAX_CERTIFICATE = 16_384

const Reason = Type.Optional(Type.Integer())
const RevocationSchema = Type.Object({ certificate: Type.String(), reason: Reason })

/**
 * Reads the payload of revokeCert (RFC 8555 section 7.6): DER that is not yet parsed, and the reason.
 *
 * @throws AcmeProblem `malformed`, `badRevocationReason`
 */
export function readRevocation(request: Payload) {
  const { certificate, reason: code = 0 } = readPayload(request, RevocationSchema)
  const der = readBase64url(certificate, '`certificate`')
  if (der.length > MAX_CERTIFICATE) throw malformed('the certificate is too large')
  const [reason] = REASONS.find(([, number]) => number === code) ?? []
  if (!reason) throw new AcmeProblem('badRevocationReason', `${code} is no reason for a revocation`)
  return { certificate: der, reason }
}

const REASONS = Object.entries(REVOCATION_REASONS) as [RevocationReason, number][]
