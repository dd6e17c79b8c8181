import { parseCsr } from '@gatehouse/pki'
import { AcmeError, type AcmeErrorCode, type Problem } from '../errors.ts'
import { type Identifier, toIdentifier } from '../identifier.ts'
import type { Solver } from '../solvers/solver.ts'

/** What is ordered. The names are those of the certificate request, so that both are always equal. */
export interface Wanted {
  readonly identifiers: readonly Identifier[]
  /** DER, base64url. */
  readonly csr: string
  /** Of the key in the request, hex. */
  readonly spkiSha256: string
  readonly profile?: string
  /** ARI identifier of the certificate that this one takes the place of. */
  readonly replaces?: string
  /** Common name that the chain should lead to, if the CA offers several. */
  readonly preferredChain?: string
}

/** A challenge that was chosen: what is needed to take its answer away again. */
export interface Task {
  readonly type: Solver['type']
  /** Without `*.`. */
  readonly identifier: Identifier
  readonly wildcard: boolean
  readonly token: string
  readonly authorizationUrl: string
  readonly challengeUrl: string
}

/** Why an order is over. */
export interface Failure {
  readonly code: AcmeErrorCode
  readonly message: string
  readonly problem?: Problem
}

interface Placed {
  readonly wanted: Wanted
  readonly orderUrl: string
}

/**
 * Where an order stands: plain JSON, to be kept before the next step is taken. `downloaded` and
 * `failed` are its ends; the key must be kept before the first step, since it is the CA's to
 * certify from `finalizing` on.
 */
export type OrderState =
  | { readonly step: 'created'; readonly wanted: Wanted }
  | ({ readonly step: 'ordered' } & Placed)
  | ({ readonly step: 'authorizing'; readonly tasks: readonly Task[] } & Placed)
  | ({ readonly step: 'finalizing' } & Placed)
  | ({ readonly step: 'valid'; readonly certificateUrl: string } & Placed)
  | ({ readonly step: 'downloaded' /** PEM, leaf first. */; readonly chain: string } & Placed)
  | { readonly step: 'failed'; readonly wanted: Wanted; readonly error: Failure }

/** The state of one step. */
export type At<Step extends OrderState['step']> = Extract<OrderState, { step: Step }>

export interface OrderOptions {
  /** Certificate request, DER or PEM. */
  readonly csr: Uint8Array | string
  readonly profile?: string
  readonly replaces?: string
  readonly preferredChain?: string
}

/** The first state of an order. @throws PkiError as `parseCsr` does */
export async function createOrder({ csr, ...options }: OrderOptions): Promise<At<'created'>> {
  const { der, names, spkiSha256 } = await parseCsr(csr)
  const identifiers = names.map(toIdentifier)
  return {
    step: 'created',
    wanted: { identifiers, csr: der.toString('base64url'), spkiSha256, ...options },
  }
}

/** Whether there is no further step. */
export const isOver = ({ step }: OrderState): boolean => step === 'downloaded' || step === 'failed'

// What a CA refuses for now, while the order stays as it is.
const PASSING: readonly AcmeErrorCode[] = [
  'ACME_BAD_NONCE',
  'ACME_ORDER_NOT_READY',
  'ACME_PAUSED',
  'ACME_RATE_LIMITED',
  'ACME_SERVER_INTERNAL',
  'ACME_USER_ACTION_REQUIRED',
]

// What ends an order without a word of the CA.
const ENDING: readonly AcmeErrorCode[] = ['ACME_CERTIFICATE_MISMATCH', 'ACME_ORDER_INVALID']

/** Whether the order cannot go on after this. */
export function isFinal(error: unknown): error is AcmeError {
  if (!(error instanceof AcmeError)) return false
  const { code, problem } = error
  if (!problem) return ENDING.includes(code)
  // Without a status it is the error of the order or the authorization itself.
  if (problem.status === undefined) return true
  // An answer without a problem document may come from a proxy in between.
  return !PASSING.includes(code) && (problem.type !== '' || GONE.includes(problem.status))
}

const GONE = [404, 410]

export function fail({ wanted }: OrderState, error: AcmeError): At<'failed'> {
  const { code, message, problem } = error
  return { step: 'failed', wanted, error: { code, message, ...(problem && { problem }) } }
}
