import { AcmeError } from '../errors.ts'
import { type Identifier, sameIdentifiers } from '../identifier.ts'
import {
  type Authorization,
  answerChallenge,
  readAuthorization,
} from '../protocol/authorization.ts'
import { keyAuthorization } from '../protocol/jws.ts'
import type { Order } from '../protocol/order.ts'
import { outcomeOf } from '../protocol/outcome.ts'
import type { ChallengeTask, Solver } from '../solvers/solver.ts'
import type { OrderIo } from './io.ts'
import { poll } from './poll.ts'
import type { Task } from './state.ts'

/** A challenge for each authorization of the order that is still open. */
export async function chooseChallenges(
  { authorizations }: Order,
  wanted: readonly Identifier[],
  io: OrderIo,
): Promise<Task[]> {
  const tasks = authorizations.map(async (url) => {
    const authorization = await io.transport.send(readAuthorization(url), io.account, io.signal)
    const name = wanted.find((one) => sameIdentifiers([one], [nameOf(authorization)]))
    if (!name)
      throw new AcmeError('ACME_ANSWER_INVALID', 'the CA asks for a name that was not ordered')
    if (isGranted(authorization, name)) return []
    return locate(choose(authorization, name, url, io.solversFor(name)), io)
  })
  return (await Promise.all(tasks)).flat()
}

/** The first solver whose challenge the CA offers; the name is spelled as it was ordered. */
function choose(
  { challenges }: Authorization,
  { type: kind, value }: Identifier,
  authorizationUrl: URL,
  solvers: readonly Solver[],
): Task {
  const identifier = { type: kind, value: value.replace(/^\*\./, '') }
  const wildcard = value.startsWith('*.')
  for (const { type } of solvers) {
    const challenge = challenges.find((offered) => offered.type === type)
    if (challenge) {
      const { token, url } = challenge
      const urls = { authorizationUrl: authorizationUrl.href, challengeUrl: url.href }
      return { type, identifier, wildcard, token, ...urls }
    }
  }
  const offered = challenges.map(({ type }) => type).join(', ') || 'none that is known'
  throw new AcmeError(
    'ACME_NO_CHALLENGE',
    `${value}: no solver for what the CA offers (${offered})`,
  )
}

async function locate(task: Task, io: OrderIo): Promise<Task> {
  const solver = solverOf(task, io)
  if (!solver?.locate) return task
  return { ...task, place: await solver.locate(answerOf(task, io), signalOf(io)) }
}

/**
 * Answers every challenge of the order, and takes the answers away once the CA has decided. All of
 * them run to their end, so that what one failure has to say is not lost to another. What is thrown
 * leaves the answers in place: the CA may still look.
 */
export async function authorize(tasks: readonly Task[], io: OrderIo): Promise<void> {
  const outcomes = await Promise.allSettled(tasks.map((task) => prove(task, io)))
  io.signal?.throwIfAborted()
  const failures = outcomes.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  const refusals = failures.filter((error): error is AcmeError => outcomeOf(error) === 'final')
  const [first, ...others] = refusals
  if (first && others.length > 0) throw together(first, refusals)
  if (failures.length > 0) throw first ?? failures[0]
  await takeAway(tasks, io)
}

async function prove(task: Task, io: OrderIo): Promise<void> {
  const solver = solverOf(task, io)
  // The configuration has changed since: the next look at the order chooses another challenge.
  if (!solver) return
  const name = nameOf(task)
  const url = new URL(task.authorizationUrl)
  const look = () => io.transport.send(readAuthorization(url), io.account, io.signal)
  if (isGranted(await look(), name)) return
  await solver.present(answerOf(task, io), signalOf(io))
  await poll(answering(task, look, io), (seen) => isGranted(seen, name), io)
}

// Longer than a DNS program may run by default, as it may have to wait for another at the name.
const CLEAN_UP_MS = 180_000

/** Takes the answers away: the CA has decided, or nobody goes on with the order. */
export async function takeAway(tasks: readonly Task[], io: OrderIo): Promise<void> {
  const cleanUp = async (task: Task) =>
    solverOf(task, io)?.cleanUp(answerOf(task, io), AbortSignal.timeout(CLEAN_UP_MS))
  await Promise.all(tasks.map((task) => cleanUp(task).catch(io.warn)))
}

const solverOf = (task: Task, io: OrderIo): Solver | undefined =>
  io.solversFor(nameOf(task)).find(({ type }) => type === task.type)

const signalOf = ({ signal }: OrderIo): AbortSignal => signal ?? new AbortController().signal

const answerOf = (
  { identifier, wildcard, token, place }: Task,
  { account }: OrderIo,
): ChallengeTask => ({
  identifier,
  wildcard,
  token,
  keyAuthorization: keyAuthorization(token, account.key),
  ...(place !== undefined && { place }),
})

/** Looks at the authorization, and tells the CA once that it may validate. */
function answering(task: Task, look: () => Promise<Authorization>, io: OrderIo) {
  const isOpen = ({ challenges }: Authorization) =>
    challenges.find(({ url }) => url.href === task.challengeUrl)?.status === 'pending'
  let answered = false
  return async () => {
    const seen = await look()
    if (answered || seen.status !== 'pending' || !isOpen(seen)) return seen
    try {
      await io.transport.send(answerChallenge(new URL(task.challengeUrl)), io.account, io.signal)
      answered = true
      return seen
    } catch (error) {
      // Another run of the same order may have been first.
      const again = await look()
      if (isOpen(again)) throw error
      return again
    }
  }
}

/** @throws AcmeError when it can never be granted any more */
function isGranted({ status, challenges }: Authorization, name: Identifier): boolean {
  if (status === 'valid') return true
  if (status === 'pending') return false
  const error =
    challenges.find(({ error }) => error)?.error ??
    new AcmeError('ACME_ORDER_INVALID', `the authorization is ${status}`)
  throw about(name, error)
}

/** The error with the name that it is about. */
function about(identifier: Identifier, { code, message, problem }: AcmeError): AcmeError {
  const told = `${identifier.value}: ${message}`
  if (!problem) return new AcmeError(code, told)
  const subproblems = [{ type: problem.type, detail: problem.detail, identifier }]
  return new AcmeError(code, told, { problem: { ...problem, subproblems } })
}

/** As the order has it. */
const nameOf = ({ identifier, wildcard }: Authorization | Task): Identifier =>
  wildcard ? { type: 'dns', value: `*.${identifier.value}` } : identifier

function together(first: AcmeError, all: readonly AcmeError[]): AcmeError {
  const message = all.map(({ message }) => message).join('; ')
  const subproblems = all.flatMap(({ problem }) => problem?.subproblems ?? [])
  const { code, problem } = first
  return new AcmeError(code, message, problem && { problem: { ...problem, subproblems } })
}
