import {
  AcmeError,
  afterError,
  cleanUpChallenges,
  createOrder,
  createRetryBudget,
  isOver,
  isPrepared,
  type OrderIo,
  type OrderState,
  outcomeOf,
  prepareOrder,
  type RetryBudget,
  renewalId,
  type Solver,
  step,
} from '@gatehouse/acme'
import type { Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { TitledError } from '@gatehouse/net'
import { parseName } from '@gatehouse/pki'
import { IssuanceError } from '../../errors.ts'
import type { LimitedOrder } from '../../limits/ca-limits.ts'
import type { Ledger } from '../../limits/ledger.ts'
import { canProve, directoryOf, type IssuerConfig } from '../../options/issuers.ts'
import type { IssuerIo, IssuerRequest, NamesToProve } from '../issuer.ts'
import type { AcmeServer } from './server.ts'

export interface AcmeIssuerDeps {
  readonly server: AcmeServer
  /** Solvers in order of preference. */
  readonly solvers: readonly Solver[]
  readonly store: Pick<Store, 'findOrderByUrl'>
  readonly limits: Pick<Ledger, 'admit' | 'resumed' | 'ordered' | 'failed' | 'issued'>
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
}

type Ended = Extract<OrderState, { step: 'downloaded' | 'failed' | 'ready' }>

/** The names of the steps in the progress of an order. */
const STEPS: Readonly<Record<OrderState['step'], string>> = {
  created: 'placing the order',
  ordered: 'looking at the order',
  authorizing: 'proving the names',
  ready: 'looking at the order',
  finalizing: 'finalizing',
  valid: 'downloading the certificate',
  downloaded: 'checking the certificate',
  failed: 'failed',
}
/** The time for which an order is retried that the CA has never accepted, in ms. */
const PLACING_MS = 7 * 86_400_000

/** The purpose of an order. Without a CSR its names are only proven, so that an order with one can take them over. */
type OrderRequest = NamesToProve & Partial<Pick<IssuerRequest, 'csr'>>

/**
 * Orders a certificate, or resumes the order of the checkpoint; gives the chain in PEM, if there is a CSR. Each
 * state is saved before the next step, so that a crash at any point loses nothing and finalizes nothing twice.
 * Transient errors are retried for as long as `io.patience` lasts; an error that is thrown after that
 * leaves the checkpoint in place, unless the CA has decided.
 * @throws AcmeError; IssuanceError `CERT_BUSY`, `CERT_RATE_LIMITED`, `CERT_TERMS_NOT_AGREED`
 */
export async function obtainChain(
  request: OrderRequest,
  io: IssuerIo,
  config: IssuerConfig,
  deps: AcmeIssuerDeps,
): Promise<string | undefined> {
  const run = new OrderRun(request, io, config, deps)
  io.report('waiting for its turn')
  return deps.server.inTurn(run.names.toSorted().join(), () => run.complete())
}

class OrderRun {
  readonly names: readonly string[]
  readonly #request: OrderRequest
  readonly #io: IssuerIo
  readonly #config: IssuerConfig
  readonly #deps: AcmeIssuerDeps
  readonly #retries: RetryBudget
  #mayRegisterAgain = true
  #state!: OrderState
  /** The state of an order that was prepared, as it was saved for this one. */
  #takenOver: OrderState | undefined

  constructor(request: OrderRequest, io: IssuerIo, config: IssuerConfig, deps: AcmeIssuerDeps) {
    this.names = request.names.map(({ text }) => text)
    this.#request = request
    this.#io = io
    this.#config = config
    this.#deps = deps
    this.#retries = createRetryBudget(io.patience, { clock: deps.clock, signal: io.signal })
  }

  async complete(): Promise<string | undefined> {
    const saved = this.#io.checkpoint as OrderState | undefined
    if (saved && saved.step !== 'created') await this.#deps.limits.resumed(this.#limited(saved))
    const end = await this.#run(saved ? this.#askedAgain(saved) : await this.#create())
    // An order that expired while nobody worked on it is no failure: it is placed anew.
    if ((saved || this.#takenOver) && hasExpired(end))
      return this.#chainOf(await this.#run({ step: 'created', request: end.request }))
    return this.#chainOf(end)
  }

  async #create(): Promise<OrderState> {
    const { names, csr, askedBy } = this.#request
    const { profile, preferredChain } = this.#config
    const replaces = this.#request.replaces && renewalId(this.#request.replaces)
    const choices = {
      ...(profile !== undefined && { profile }),
      ...(preferredChain !== undefined && { preferredChain }),
      ...(replaces !== undefined && { replaces }),
      ...(typeof askedBy === 'string' && { askedBy }),
    }
    const state = csr ? await createOrder({ csr: csr(), ...choices }) : prepareOrder(names, choices)
    await this.#io.save(state)
    return state
  }

  /** An order that is not placed yet may now be for another caller. */
  #askedAgain(saved: OrderState): OrderState {
    const { askedBy } = this.#request
    if (saved.step !== 'created' || askedBy === undefined) return saved
    const { askedBy: _, ...request } = saved.request
    return { step: 'created', request: { ...request, ...(askedBy !== null && { askedBy }) } }
  }

  async #run(first: OrderState): Promise<Ended> {
    this.#state = first
    this.#mayRegisterAgain = true
    // An order that was prepared is looked at again.
    do
      try {
        await this.#advance(this.#state)
      } catch (error) {
        if (!(await this.#retries.waitAfter(error))) throw error
      }
    while (!isOver(this.#state) && !isPrepared(this.#state))
    return this.#state as Ended
  }

  /** Takes the next step. An account that the CA does not know is registered again once. */
  async #advance(state: OrderState): Promise<void> {
    this.#io.report(STEPS[state.step])
    try {
      const next = await this.#takeStep(state, await this.#orderIo())
      if (!isOver(next) && next !== this.#takenOver) await this.#io.save(next)
      this.#state = next
    } catch (error) {
      this.#io.signal.throwIfAborted()
      if (outcomeOf(error) === 'account' && this.#mayRegisterAgain) {
        this.#mayRegisterAgain = false
        this.#state = await this.#registerAgain(state)
      } else {
        await this.#saveAfter(error)
        throw error
      }
    }
  }

  /** Takes one step, which counts against the rate limits of the CA. */
  async #takeStep(state: OrderState, orderIo: OrderIo): Promise<OrderState> {
    const { limits, store } = this.#deps
    const limited = this.#limited(state)
    if (state.step === 'created') {
      this.#takenOver = await this.#takeOver(state)
      if (this.#takenOver) return this.#takenOver
      await limits.admit(limited)
    }
    const next = await step(state, orderIo)
    if (state.step === 'created' && next.step === 'ordered') {
      if (await store.findOrderByUrl(next.orderUrl)) throw sharedOrder(this.names)
      await limits.ordered(limited)
    }
    if (state.step === 'authorizing' && next.step === 'failed')
      await limits.failed(limited, failedNames(next, this.names))
    if (next.step === 'downloaded') await limits.issued(limited)
    return next
  }

  /** Goes on with the order that was prepared for these names, which has told the CA what it replaces. */
  async #takeOver(state: OrderState): Promise<OrderState | undefined> {
    if (state.request.csr === undefined) return undefined
    const { replaces: _, ...request } = state.request
    const taken = await this.#io.takeOver((prepared) =>
      isPlaced(prepared) ? { ...prepared, request: { ...prepared.request, ...request } } : state,
    )
    if (!taken || taken === state) return undefined
    await this.#deps.limits.resumed(this.#limited(taken))
    return taken
  }

  async #saveAfter(error: unknown): Promise<void> {
    const after = afterError(this.#state, error, this.#deps.clock.now())
    if (this.#isGivenUp(after, error)) await this.#io.save(undefined)
    else if (after !== this.#state) await this.#io.save(after)
    this.#state = after
  }

  /** An order that the CA has not accepted is not retried after an internal error, nor for ever. */
  #isGivenUp({ step }: OrderState, error: unknown): boolean {
    if (step !== 'created') return false
    const isInternal = !(error instanceof AcmeError || error instanceof TitledError)
    return isInternal || this.#deps.clock.now() - this.#io.since > PLACING_MS
  }

  /** Registers with the same key: the CA may find the same account, which still has the order. */
  async #registerAgain(state: OrderState): Promise<OrderState> {
    const { account } = this.#deps.server
    const formerUrl = await account.url()
    await account.renounce()
    const { accountUrl } = await account.get(this.#io.signal)
    // If an earlier try was interrupted here, the URL is unknown: the order itself shows.
    if (formerUrl === undefined || accountUrl === formerUrl) return state
    if (state.step === 'authorizing') await cleanUpChallenges(state.tasks, await this.#orderIo())
    const again: OrderState = { step: 'created', request: state.request }
    await this.#io.save(again)
    return again
  }

  async #chainOf(end: Ended): Promise<string | undefined> {
    if (end.step === 'ready') return undefined
    if (end.step === 'downloaded') return end.chain
    await this.#io.save(undefined)
    const { code, message, problem } = end.error
    throw new AcmeError(code, message, { ...(problem && { problem }), isDecision: true })
  }

  #limited({ request }: OrderState): LimitedOrder {
    const directory = directoryOf(this.#config.directory)
    const renewal = request.replaces !== undefined
    const isRenewal = this.#request.replaces !== undefined
    const head = { issuer: this.#config.name, directory, names: this.names }
    return { ...head, renewal, isRenewal, askedBy: request.askedBy }
  }

  async #orderIo(): Promise<OrderIo> {
    const { server, solvers, clock, log } = this.#deps
    const { signal } = this.#io
    const reporting = solvers.map((solver) => withReports(solver, this.#io))
    return {
      transport: server.transport,
      account: await server.account.get(signal),
      // The same choice as in a dry run, whatever the CA offers.
      solversFor: ({ value }) =>
        reporting.filter((solver) => canProve({ challenges: [solver] }, parseName(value).kind)),
      clock,
      signal,
      warn: (err) => log.warn({ err }, 'a challenge response could not be removed'),
    }
  }
}

/** Whether what was prepared is at the CA. */
function isPlaced(state: unknown): state is Extract<OrderState, { step: 'ordered' | 'ready' }> {
  return (state as { orderUrl?: string } | undefined)?.orderUrl !== undefined
}

function hasExpired(end: Ended): end is Extract<Ended, { step: 'failed' }> {
  return end.step === 'failed' && end.error.code === 'ACME_ORDER_INVALID' && !end.error.problem
}

function withReports(solver: Solver, { report }: IssuerIo): Solver {
  return {
    ...solver,
    async present(task, signal) {
      report(solver.type === 'dns-01' ? 'waiting for DNS' : 'answering the challenge')
      await solver.present(task, signal)
      report('validating')
    },
  }
}

/** CAs merge orders for the same names; two keys must not finalize one order. */
function sharedOrder([name]: readonly string[]): IssuanceError {
  const why = `another certificate for ${name} is being made of the same order`
  return new IssuanceError('CERT_BUSY', why, { retryAfter: 60 })
}

/** The names that the CA reports, or else all. */
function failedNames({ error }: Extract<OrderState, { step: 'failed' }>, names: readonly string[]) {
  const reported = (error.problem?.subproblems ?? []).flatMap(({ identifier }) => identifier ?? [])
  return reported.length > 0 ? reported.map(({ value }) => value) : names
}
