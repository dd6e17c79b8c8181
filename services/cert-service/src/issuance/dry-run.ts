import { AcmeError, type Solver } from '@gatehouse/acme'
import type { Name } from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Budget, Ledger } from '../limits/ledger.ts'
import type { OrderRecord, Store } from '../store/store.ts'
import type { Held } from './answer.ts'
import { orderOf } from './flights.ts'
import type { Issuance } from './obtain.ts'
import type { CertificateRequest } from './request.ts'

/** What a request would come to, as far as it can be told without an order. */
export interface DryRun {
  /** What would be answered at once. */
  readonly held: Held | undefined
  /** What is under way, or failed. */
  readonly order: OrderRecord | undefined
  /** The account at the CA, where there is one. */
  readonly accountUrl: string | undefined
  readonly proofs: readonly Proof[]
  readonly budgets: readonly Budget[]
}

/** How a name would be proven to the CA. */
export interface Proof {
  readonly name: string
  readonly challenge: Solver['type']
  readonly status: 'ready' | 'failed' | 'unchecked'
  readonly detail: string
  readonly code?: string
}

/** Looks ahead. @throws CertError `CERT_BUSY` when too many are looked at */
export type DryRunner = (request: CertificateRequest) => Promise<DryRun>

interface DryRunDeps {
  readonly issuance: Pick<Issuance, 'find' | 'flights'>
  readonly store: Pick<Store, 'findOrderByLineage'>
  readonly ledger: Pick<Ledger, 'budgets'>
}

const MAX_RUNS = 8
const NAMES_AT_A_TIME = 8
const TIMEOUT_MS = 10_000

/** Makes what looks ahead without ordering or writing anything. */
export function createDryRun({ issuance, store, ledger }: DryRunDeps): DryRunner {
  let runs = 0

  return async function dryRun(request) {
    if (runs >= MAX_RUNS)
      throw new CertError('CERT_BUSY', 'too many dry runs at once', { retryAfter: 5 })
    runs += 1
    try {
      const { issuer, names, lineage } = request
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
      runs -= 1
    }
  }
}

async function proofsOf({ issuer, names }: CertificateRequest): Promise<readonly Proof[]> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const proofs: Proof[] = []
  for (let at = 0; at < names.length; at += NAMES_AT_A_TIME)
    proofs.push(
      ...(await Promise.all(
        names.slice(at, at + NAMES_AT_A_TIME).flatMap((name) => {
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
    const detail = 'only the CA can tell whether it reaches what answers'
    return { ...head, status: 'unchecked', detail }
  }
  try {
    const { target, isProviderChecked } = await solver.check(name, signal)
    const detail = isProviderChecked
      ? `the record goes to ${target}, and its provider let us in`
      : `the record goes to ${target}; its provider cannot be asked without a change`
    return { ...head, status: 'ready', detail }
  } catch (error) {
    if (error instanceof AcmeError)
      return { ...head, status: 'failed', detail: error.message, code: error.code }
    if (!signal.aborted) throw error
    return { ...head, status: 'unchecked', detail: 'name servers or provider took too long' }
  }
}
