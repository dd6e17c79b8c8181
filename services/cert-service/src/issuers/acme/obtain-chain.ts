import {
  AcmeError,
  afterError,
  cleanUpChallenges,
  createOrder,
  createRetryBudget,
  isOver,
  type OrderIo,
  type OrderOptions,
  type OrderState,
  outcomeOf,
  renewalId,
  type Solver,
  step,
} from '@gatehouse/acme'
import { parseName } from '@gatehouse/pki'
import { canProve } from '../../config/check-issuers.ts'
import type { IssuerConfig } from '../../config/issuers.ts'
import { CertError } from '../../errors.ts'
import type { IssuerIo, IssuerRequest } from '../issuer.ts'
import type { AcmeIssuerDeps } from './issuer.ts'
import type { LimitedOrder } from './limits.ts'

/** What the steps of an order are called in its progress. */
const STEPS: Readonly<Record<OrderState['step'], string>> = {
  created: 'placing the order',
  ordered: 'looking at the order',
  authorizing: 'proving the names',
  finalizing: 'finalizing',
  valid: 'downloading the certificate',
  downloaded: 'checking the certificate',
  failed: 'failed',
}

type Ended = Extract<OrderState, { step: 'downloaded' | 'failed' }>

/** An order that the CA never took is tried for so long by itself. */
const PLACING_MS = 7 * 86_400_000

/**
 * Orders a certificate, or resumes the order of the checkpoint; gives the chain in PEM. Each state is
 * saved before the next step, so that a crash at any point loses nothing and finalizes nothing twice.
 * Transient errors are retried for as long as `io.patience` lasts; an error that is thrown after that
 * leaves the checkpoint in place, unless the CA has decided.
 *
 * @throws AcmeError; CertError `CERT_BUSY`, `CERT_RATE_LIMITED`, `CERT_TERMS_NOT_AGREED`
 */
export async function obtainChain(
  request: IssuerRequest,
  io: IssuerIo,
  config: IssuerConfig,
  deps: AcmeIssuerDeps,
): Promise<string> {
  const { server, clock } = deps
  const names = request.names.map(({ text }) => text)
  const patience = createRetryBudget(io.patience, { clock, signal: io.signal })
  io.report('waiting for its turn')
  return server.inTurn(names.toSorted().join(), async () => {
    const checkpoint = io.checkpoint as OrderState | undefined
    if (checkpoint && checkpoint.step !== 'created') deps.limits.resumed(limitedOf(checkpoint))
    const end = await run(checkpoint ?? (await open()))
    // An order that was left alone for too long has expired; nobody was told of a failure.
    if (checkpoint && hasExpired(end))
      return chainOf(await run({ step: 'created', wanted: end.wanted }))
    return chainOf(end)
  })

  async function open(): Promise<OrderState> {
    const state = await createOrder(optionsOf())
    await io.save(state)
    return state
  }

  function optionsOf(): OrderOptions {
    const { profile, preferredChain } = config
    const replaces = request.replaces && renewalId(request.replaces)
    return {
      csr: request.csr(),
      ...(profile !== undefined && { profile }),
      ...(preferredChain !== undefined && { preferredChain }),
      ...(replaces !== undefined && { replaces }),
    }
  }

  async function patiently<T>(run: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await run()
      } catch (error) {
        if (!(await patience.waitAfter(error))) throw error
      }
    }
  }

  async function run(first: OrderState): Promise<Ended> {
    let state = first
    let isKnown = true
    const advance = async () => {
      io.report(STEPS[state.step])
      try {
        const next = await take(state, await orderIoOf(io, deps))
        if (!isOver(next)) await io.save(next)
        state = next
      } catch (error) {
        io.signal.throwIfAborted()
        if (outcomeOf(error) === 'account' && isKnown) {
          isKnown = false
          state = await registerAgain(state)
        } else {
          await keepAfter(error)
          throw error
        }
      }
    }
    const keepAfter = async (error: unknown) => {
      const after = afterError(state, error, clock.now())
      if (isGivenUp(after, error)) await io.save(undefined)
      else if (after !== state) await io.save(after)
      state = after
    }
    while (!isOver(state)) await patiently(advance)
    return state as Ended
  }

  /** The CA has no order yet: one that only a fault of ours stopped is not tried by itself. */
  function isGivenUp({ step }: OrderState, error: unknown): boolean {
    if (step !== 'created') return false
    const isTold = error instanceof AcmeError || error instanceof CertError
    return !isTold || clock.now() - io.since > PLACING_MS
  }

  /** The same key may well find the same account, which still has the order. */
  async function registerAgain(state: OrderState): Promise<OrderState> {
    const { account } = server
    const before = await account.url()
    await account.renounce()
    const { accountUrl } = await account.get(io.signal)
    // Unknown after an earlier try that was cut short: then the order itself tells.
    if (before === undefined || accountUrl === before) return state
    if (state.step === 'authorizing')
      await cleanUpChallenges(state.tasks, await orderIoOf(io, deps))
    const again: OrderState = { step: 'created', wanted: state.wanted }
    await io.save(again)
    return again
  }

  /** A step, and what the limits of the CA have to do with it. */
  async function take(state: OrderState, orderIo: OrderIo): Promise<OrderState> {
    const { limits, store } = deps
    const limited = limitedOf(state)
    if (state.step === 'created') limits.admit(limited)
    const next = await step(state, orderIo)
    if (state.step === 'created' && next.step === 'ordered') {
      if (await store.findOrderByUrl(next.orderUrl)) throw shared(names)
      limits.ordered(limited)
    }
    if (state.step === 'authorizing' && next.step === 'failed')
      limits.failed(limited, failedNames(next, names))
    if (next.step === 'downloaded') limits.issued(limited)
    return next
  }

  function limitedOf({ wanted }: OrderState): LimitedOrder {
    const { directory } = server
    return { issuer: config.name, directory, names, renewal: wanted.replaces !== undefined }
  }

  async function chainOf(end: Ended): Promise<string> {
    if (end.step === 'downloaded') return end.chain
    await io.save(undefined)
    const { code, message, problem } = end.error
    throw new AcmeError(code, message, { ...(problem && { problem }), isDecision: true })
  }
}

function hasExpired(end: Ended): end is Extract<Ended, { step: 'failed' }> {
  return end.step === 'failed' && end.error.code === 'ACME_ORDER_INVALID' && !end.error.problem
}

async function orderIoOf(io: IssuerIo, deps: AcmeIssuerDeps): Promise<OrderIo> {
  const { server, solvers, clock, log } = deps
  const reporting = solvers.map((solver) => withReports(solver, io))
  return {
    transport: server.transport,
    account: await server.account.get(io.signal),
    // As a dry run has it, whatever the CA offers.
    solversFor: ({ value }) =>
      reporting.filter((solver) => canProve({ challenges: [solver] }, parseName(value).kind)),
    clock,
    signal: io.signal,
    warn: (err) => log.warn({ err }, 'the answer to a challenge could not be taken away'),
  }
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

/** The CA joins orders of the same names: whoever has another key must not finalise this one. */
function shared([name]: readonly string[]): CertError {
  const why = `another certificate for ${name} is being made of the same order`
  return new CertError('CERT_BUSY', why, { retryAfter: 60 })
}

/** As far as the CA tells, else all of them. */
function failedNames({ error }: Extract<OrderState, { step: 'failed' }>, all: readonly string[]) {
  const told = (error.problem?.subproblems ?? []).flatMap(({ identifier }) => identifier ?? [])
  return told.length > 0 ? told.map(({ value }) => value) : all
}
