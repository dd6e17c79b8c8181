import { AcmeError, type Solver } from '@gatehouse/acme'
import type { Name } from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Budget, Ledger } from '../limits/ledger.ts'
import type { OrderRecord, Store } from '../store/store.ts'
import { orderOf } from './flight.ts'
import type { Held } from './held.ts'
import type { Issuance } from './issuance.ts'
import type { IssuanceRequest } from './request.ts'

/** What a request would lead to, as far as that is known without an order. */
export interface DryRun {
  /** The certificate that would be answered at once. */
  readonly held: Held | undefined
  /** The order that is under way or failed. */
  readonly order: OrderRecord | undefined
  /** The account at the CA, if any. */
  readonly accountUrl: string | undefined
  readonly proofs: readonly Proof[]
  readonly budgets: readonly Budget[]
}

/** How a name would be proven to the CA. */
interface Proof {
  readonly name: string
  readonly challenge: Solver['type']
  readonly status: 'ready' | 'failed' | 'unchecked'
  readonly detail: string
  readonly code?: string
}

interface DryRunDeps {
  readonly issuance: Pick<Issuance, 'find' | 'flights'>
  readonly store: Pick<Store, 'findOrderByLineage'>
  readonly ledger: Pick<Ledger, 'budgets'>
}

const MAX_RUNS = 8
const BATCH = 8
const TIMEOUT_MS = 10_000

/** Checks what requests would lead to, without ordering or writing anything. */
export class DryRuns {
  readonly #deps: DryRunDeps
  #running = 0

  constructor(deps: DryRunDeps) {
    this.#deps = deps
  }

  /** @throws CertError `CERT_BUSY` if too many run; what {@link Issuance.find} throws */
  async run(request: IssuanceRequest): Promise<DryRun> {
    if (this.#running >= MAX_RUNS)
      throw new CertError('CERT_BUSY', 'too many dry runs at once', { retryAfter: 5 })
    this.#running += 1
    try {
      const { issuer, names, lineage } = request
      const { issuance, store, ledger } = this.#deps
      const held = await issuance.find(request)
      const flight = issuance.flights.get(lineage)
      const order = flight ? orderOf(flight) : await store.findOrderByLineage(lineage)
      const texts = names.map(({ text }) => text)
      return {
        held,
        order: order?.status === 'done' ? undefined : order,
        accountUrl: await issuer.accountUrl?.(),
        proofs: await proofsOf(request),
        budgets: ledger.budgets(issuer.name, texts),
      }
    } finally {
      this.#running -= 1
    }
  }
}

async function proofsOf({ issuer, names }: IssuanceRequest): Promise<readonly Proof[]> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const proofs: Proof[] = []
  for (let at = 0; at < names.length; at += BATCH)
    proofs.push(
      ...(await Promise.all(
        names.slice(at, at + BATCH).flatMap((name) => {
          const solver = issuer.solverFor?.(name)
          return solver ? prove(name, solver, signal) : []
        }),
      )),
    )
  return proofs
}

async function prove(name: Name, solver: Solver, signal: AbortSignal): Promise<Proof> {
  const head = { name: name.text, challenge: solver.type }
  if (!solver.check) {
    const detail = 'only the CA can check whether it reaches the responder'
    return { ...head, status: 'unchecked', detail }
  }
  try {
    const { target, isProviderChecked } = await solver.check(name, signal)
    const detail = isProviderChecked
      ? `the record goes to ${target}, and its provider accepts the credentials`
      : `the record goes to ${target}; its provider cannot be checked without a change`
    return { ...head, status: 'ready', detail }
  } catch (error) {
    if (error instanceof AcmeError)
      return { ...head, status: 'failed', detail: error.message, code: error.code }
    if (!signal.aborted) throw error
    return { ...head, status: 'unchecked', detail: 'name servers or provider took too long' }
  }
}
