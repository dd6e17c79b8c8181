export type { Identifier } from '../identifier.ts'
export { toIdentifier } from '../identifier.ts'
export type { ProblemType } from '../protocol/problem.ts'
export { parseRenewalId, renewalId } from '../protocol/renewal-info.ts'
export { readIdentifiers } from './identifiers.ts'
export {
  ACCOUNT_ALGORITHMS,
  readBinding,
  readKeyChange,
  readRequest,
  type SignedRequest,
} from './jws.ts'
export { type PublicKey, readPublicKey } from './keys.ts'
export { Nonces } from './nonces.ts'
export { readBase64url } from './parts.ts'
export { readPayload, readRevocation } from './payload.ts'
export { AcmeProblem, malformed } from './problems.ts'
