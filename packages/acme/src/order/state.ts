import { parseCsr } from '@gatehouse/pki'
import type { AcmeError, AcmeErrorCode, Problem } from '../errors.ts'
import { type Identifier, toIdentifier } from '../identifier.ts'
import { outcomeOf } from '../protocol/outcome.ts'
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
  /** Where the answer is put, as `locate` of the solver gave it. */
  readonly place?: string
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
 * certify from `finalizing` on. `deniedSince` is the moment, in epoch milliseconds, from which the CA
 * has denied to know what it was asked for.
 */
export type OrderState = { readonly deniedSince?: number } & (
  | { readonly step: 'created'; readonly wanted: Wanted }
  | ({ readonly step: 'ordered' } & Placed)
  | ({ readonly step: 'authorizing'; readonly tasks: readonly Task[] } & Placed)
  | ({ readonly step: 'finalizing' } & Placed)
  | ({ readonly step: 'valid'; readonly certificateUrl: string } & Placed)
  | ({ readonly step: 'downloaded' /** PEM, leaf first. */; readonly chain: string } & Placed)
  | { readonly step: 'failed'; readonly wanted: Wanted; readonly error: Failure }
)

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

const DAY_MS = 86_400_000

/**
 * Whether the order cannot go on after this fault. What the CA denies to know may only not have
 * reached the replica that was asked, so that counts after a whole day of it.
 */
export function isFinal(error: unknown, state: OrderState, now: number): error is AcmeError {
  const outcome = outcomeOf(error)
  const { deniedSince = now } = state
  return outcome === 'final' || (outcome === 'denied' && now - deniedSince >= DAY_MS)
}

/** The state to be kept after a fault that was not the end: it may have to say since when. */
export function afterFault(state: OrderState, error: unknown, now: number): OrderState {
  if (outcomeOf(error) !== 'denied' || state.deniedSince !== undefined) return state
  return { ...state, deniedSince: now }
}

export function fail({ wanted }: OrderState, error: AcmeError): At<'failed'> {
  const { code, message, problem } = error
  return { step: 'failed', wanted, error: { code, message, ...(problem && { problem }) } }
}
