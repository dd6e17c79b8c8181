import type { KeyObject } from 'node:crypto'
import type { Clock } from '../clock.ts'
import type { Identifier } from '../identifier.ts'
import type { Transport } from '../protocol/transport.ts'
import type { Solver } from '../solvers/solver.ts'

/** What the steps of an order have effects on. */
export interface OrderIo {
  readonly transport: Transport
  readonly account: { readonly accountUrl: string; readonly key: KeyObject }
  /** The solvers for a name (a wildcard with its `*.`), the preferred one first. */
  readonly solversFor: (identifier: Identifier) => readonly Solver[]
  readonly clock: Clock
  readonly signal?: AbortSignal
  /** Hears of what did not stop the order: an answer to a challenge that could not be taken away. */
  readonly warn: (error: unknown) => void
}
