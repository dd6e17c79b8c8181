import type { Identifier } from '../identifier.ts'
import { PROBLEM_URN, type ProblemType } from '../protocol/problem.ts'

/** The statuses other than 400. */
const STATUSES: Partial<Record<ProblemType, number>> = {
  caa: 403,
  externalAccountRequired: 403,
  orderNotReady: 403,
  rateLimited: 429,
  rejectedIdentifier: 403,
  serverInternal: 500,
  unauthorized: 403,
  userActionRequired: 403,
}

interface ProblemOptions extends ErrorOptions {
  /** Instead of the usual status of the type. */
  readonly status?: number
  /** Seconds. */
  readonly retryAfter?: number
  /** The identifier that a subproblem is about. */
  readonly identifier?: Identifier
  readonly subproblems?: readonly AcmeProblem[]
  /** The accepted algorithms, for `badSignatureAlgorithm` (RFC 8555 section 6.2). */
  readonly algorithms?: readonly string[]
}

/** A refusal of an ACME server, which serializes as its problem document (RFC 8555 section 6.7). */
export class AcmeProblem extends Error {
  readonly type: ProblemType
  readonly status: number
  readonly retryAfter: number | undefined
  readonly identifier: Identifier | undefined
  readonly subproblems: readonly AcmeProblem[] | undefined
  readonly algorithms: readonly string[] | undefined

  constructor(type: ProblemType, detail: string, options: ProblemOptions = {}) {
    super(detail, options)
    this.type = type
    this.status = options.status ?? STATUSES[type] ?? 400
    this.retryAfter = options.retryAfter
    this.identifier = options.identifier
    this.subproblems = options.subproblems
    this.algorithms = options.algorithms
  }

  get detail(): string {
    return this.message
  }

  /** The problem document. */
  toJSON() {
    const { type, status, detail, identifier, subproblems, algorithms } = this
    return { type: PROBLEM_URN + type, status, detail, identifier, subproblems, algorithms }
  }
}

/** A refusal of the type `malformed`. */
export const malformed = (detail: string, options?: ProblemOptions): AcmeProblem =>
  new AcmeProblem('malformed', detail, options)
