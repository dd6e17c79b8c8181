import type { KeyObject } from 'node:crypto'
import type { Clock } from '@gatehouse/net'
import { type Name, parseCsr } from '@gatehouse/pki'
import type { AcmeError, Problem } from '../errors.ts'
import { type Identifier, toIdentifier } from '../identifier.ts'
import { outcomeOf } from '../protocol/problem.ts'
import type { Transport } from '../protocol/transport.ts'
import type { ChallengeTask, Solver } from '../solvers/solver.ts'

export interface OrderOptions {
  /** DER or PEM. */
  readonly csr: Uint8Array | string
  /** The profile, one of those in the directory. */
  readonly profile?: string
  /** ARI identifier of the certificate to replace (RFC 9773 section 5). */
  readonly replaces?: string
  /** Common name of the preferred root, if the CA offers several chains. */
  readonly preferredChain?: string
  /** Kept with the order: whom it is for. */
  readonly askedBy?: string
}

/** The certificate to order. The names are those of the CSR, so that both are always equal. */
export interface CertificateRequest extends Omit<OrderOptions, 'csr'> {
  readonly identifiers: readonly Identifier[]
  /** DER, base64url. */
  readonly csr: string
  /** SHA-256 of the SubjectPublicKeyInfo in the CSR, hex. */
  readonly spkiSha256: string
}

/** The names to order a certificate for, before there is a CSR. */
export interface NamesRequest extends Omit<OrderOptions, 'csr'> {
  readonly identifiers: readonly Identifier[]
  readonly csr?: undefined
}

/** A chosen challenge, with what cleaning it up requires. */
export interface Task extends Omit<ChallengeTask, 'keyAuthorization'> {
  readonly type: Solver['type']
  readonly authorizationUrl: string
  readonly challengeUrl: string
}

/** The reason why an order has failed. */
export interface Failure extends Pick<AcmeError, 'code' | 'message'> {
  readonly problem?: Problem
}

interface Placed<Request = CertificateRequest | NamesRequest> {
  readonly request: Request
  readonly orderUrl: string
}
type Ordered = Placed<CertificateRequest>

/**
 * The state of an order: plain JSON, to be stored before the next step. `downloaded` and `failed` are
 * final, and so is `ready` without a CSR: the names are proven. Store the key before the first step, because
 * the CA may certify it from `finalizing` on.
 * `deniedSince` is the time, in epoch milliseconds, since which the CA has not known the resources of
 * the order.
 */
export type OrderState = { readonly deniedSince?: number } & (
  | { readonly step: 'created'; readonly request: Placed['request'] }
  | ({ readonly step: 'ordered' } & Placed)
  | ({ readonly step: 'authorizing'; readonly tasks: readonly Task[] } & Placed)
  | ({ readonly step: 'ready' } & Placed)
  | ({ readonly step: 'finalizing' } & Ordered)
  | ({ readonly step: 'valid'; readonly certificateUrl: string } & Ordered)
  | ({ readonly step: 'downloaded' /** PEM, leaf first. */; readonly chain: string } & Ordered)
  | { readonly step: 'failed'; readonly request: Placed['request']; readonly error: Failure }
)

/** The state at one step. */
export type StepState<Step extends OrderState['step']> = Extract<OrderState, { step: Step }>

/** The initial state of an order. @throws PkiError as `parseCsr` does */
export async function createOrder({
  csr,
  ...options
}: OrderOptions): Promise<StepState<'created'>> {
  const { der, names, spkiSha256 } = await parseCsr(csr)
  const identifiers = names.map(toIdentifier)
  return {
    step: 'created',
    request: { identifiers, csr: der.toString('base64url'), spkiSha256, ...options },
  }
}

/**
 * The initial state of an order without a CSR, of which the steps prove the names and end at `ready`. To go
 * on with a CSR for these names, replace its `request` by that of {@link createOrder}.
 */
export function prepareOrder(
  names: readonly Name[],
  choices: Omit<OrderOptions, 'csr'>,
): StepState<'created'> {
  return { step: 'created', request: { identifiers: names.map(toIdentifier), ...choices } }
}

/** Whether the order is downloaded or failed. */
export const isOver = ({ step }: OrderState): boolean => step === 'downloaded' || step === 'failed'

/** Whether the names of an order without a CSR are proven. */
export const isPrepared = ({ step, request }: OrderState): boolean =>
  step === 'ready' && request.csr === undefined

const DAY_MS = 86_400_000

/**
 * Whether the error ends the order. A resource that the CA does not know may only be missing at one of
 * its replicas, so that is final after a day.
 */
export function isFinal(error: unknown, state: OrderState, now: number): error is AcmeError {
  const outcome = outcomeOf(error)
  const { deniedSince = now } = state
  return outcome === 'final' || (outcome === 'denied' && now - deniedSince >= DAY_MS)
}

/** The state to store after an error that did not end the order; it may have a new `deniedSince`. */
export function afterError(state: OrderState, error: unknown, now: number): OrderState {
  if (outcomeOf(error) !== 'denied' || state.deniedSince !== undefined) return state
  return { ...state, deniedSince: now }
}

export function fail({ request }: OrderState, error: AcmeError): StepState<'failed'> {
  const { code, message, problem } = error
  return { step: 'failed', request, error: { code, message, ...(problem && { problem }) } }
}

/** The CA, the account and the solvers that the steps of an order work with. */
export interface OrderIo {
  readonly transport: Transport
  readonly account: { readonly accountUrl: string; readonly key: KeyObject }
  /** The solvers for a name (a wildcard with its `*.`) in order of preference. */
  readonly solversFor: (identifier: Identifier) => readonly Solver[]
  readonly clock: Clock
  readonly signal?: AbortSignal
  /** Called with errors that do not stop the order, such as a failed clean-up. */
  readonly warn: (error: unknown) => void
}
