import { AcmeError } from '../errors.ts'
import { type Identifier, sameIdentifiers } from '../identifier.ts'
import { keyAuthorization } from '../protocol/jws.ts'
import {
  type AcmeAuthorization,
  type AcmeOrder,
  answerChallenge,
  readAuthorization,
} from '../protocol/order.ts'
import { outcomeOf } from '../protocol/problem.ts'
import type { ChallengeTask, Solver } from '../solvers/solver.ts'
import { poll } from './retry.ts'
import type { OrderIo, Task } from './state.ts'

/** Chooses a challenge for each pending authorization of the order. */
export async function chooseChallenges(
  { authorizations }: AcmeOrder,
  identifiers: readonly Identifier[],
  io: OrderIo,
): Promise<Task[]> {
  const tasks = authorizations.map(async (url) => {
    const authorization = await io.transport.send(readAuthorization(url), io.account, io.signal)
    const name = identifiers.find((name) => sameIdentifiers([name], [nameOf(authorization)]))
    if (!name)
      throw new AcmeError('ACME_ANSWER_INVALID', 'the CA asks for a name that was not ordered')
    if (isValid(authorization, name)) return []
    return locate(choose(authorization, name, url, io.solversFor(name)), io)
  })
  return (await Promise.all(tasks)).flat()
}

/** The first solver whose challenge the CA offers. The name keeps the spelling of the order. */
function choose(
  { challenges }: AcmeAuthorization,
  { type: kind, value }: Identifier,
  authorizationUrl: URL,
  solvers: readonly Solver[],
): Task {
  const identifier = { type: kind, value: value.replace(/^\*\./, '') }
  const wildcard = value.startsWith('*.')
  for (const { type } of solvers) {
    const { token, url } = challenges.find((offered) => offered.type === type) ?? {}
    if (token === undefined || url === undefined) continue
    const urls = { authorizationUrl: authorizationUrl.href, challengeUrl: url.href }
    return { type, identifier, wildcard, token, ...urls }
  }
  const offered = challenges.map(({ type }) => type).join(', ') || 'none that is known'
  throw new AcmeError(
    'ACME_NO_CHALLENGE',
    `${value}: no solver for what the CA offers (${offered})`,
  )
}

async function locate(task: Task, io: OrderIo): Promise<Task> {
  const place = await solverOf(task, io)?.locate?.(answerOf(task, io), signalOf(io))
  return place === undefined ? task : { ...task, place }
}

/**
 * Answers every challenge of the order, and cleans up once the CA has decided. All of them run to
 * their end, so that every failure is reported. If it throws, the answers stay in place, because the
 * CA may still validate.
 */
export async function authorize(tasks: readonly Task[], io: OrderIo): Promise<void> {
  const runs = await Promise.allSettled(tasks.map((task) => prove(task, io)))
  const failures = runs.flatMap((run) => (run.status === 'rejected' ? [run.reason] : []))
  const refusals = failures.filter((error): error is AcmeError => outcomeOf(error) === 'final')
  if (refusals.length > 1) throw combine(refusals)
  if (failures.length > 0) throw refusals[0] ?? failures[0]
  await cleanUpChallenges(tasks, io)
}

async function prove(task: Task, io: OrderIo): Promise<void> {
  const solver = solverOf(task, io)
  // The configuration has changed: the next step chooses another challenge.
  if (!solver) return
  const name = nameOf(task)
  const url = new URL(task.authorizationUrl)
  const read = () => io.transport.send(readAuthorization(url), io.account, io.signal)
  if (isValid(await read(), name)) return
  await solver.present(answerOf(task, io), signalOf(io))
  await poll(answering(task, read, io), (state) => isValid(state, name), io)
}

// Longer than the default timeout of a DNS program, because it may wait for another one at the name.
const CLEAN_UP_MS = 180_000

/** Removes the answers to challenges, once the CA has decided or the order is abandoned. */
export async function cleanUpChallenges(tasks: readonly Task[], io: OrderIo): Promise<void> {
  const cleanUp = async (task: Task) =>
    solverOf(task, io)?.cleanUp(answerOf(task, io), AbortSignal.timeout(CLEAN_UP_MS))
  await Promise.all(tasks.map((task) => cleanUp(task).catch(io.warn)))
}

const solverOf = (task: Task, io: OrderIo): Solver | undefined =>
  io.solversFor(nameOf(task)).find(({ type }) => type === task.type)

const signalOf = ({ signal }: OrderIo): AbortSignal => signal ?? new AbortController().signal

const answerOf = (task: Task, { account }: OrderIo): ChallengeTask => ({
  ...task,
  keyAuthorization: keyAuthorization(task.token, account.key),
})

/** Reads the authorization, and asks the CA once to validate. */
function answering(task: Task, read: () => Promise<AcmeAuthorization>, io: OrderIo) {
  const isPending = ({ challenges }: AcmeAuthorization) =>
    challenges.find(({ url }) => url.href === task.challengeUrl)?.status === 'pending'
  let answered = false
  return async () => {
    const authorization = await read()
    if (answered || authorization.status !== 'pending' || !isPending(authorization))
      return authorization
    try {
      await io.transport.send(answerChallenge(new URL(task.challengeUrl)), io.account, io.signal)
      answered = true
      return authorization
    } catch (error) {
      // Another run of the same order may have asked before.
      const again = await read()
      if (isPending(again)) throw error
      return again
    }
  }
}

/** @throws AcmeError if the authorization can no longer become valid */
function isValid({ status, challenges }: AcmeAuthorization, name: Identifier): boolean {
  if (status === 'valid') return true
  if (status === 'pending') return false
  const error =
    challenges.find(({ error }) => error)?.error ??
    new AcmeError('ACME_ORDER_INVALID', `the authorization is ${status}`)
  throw withName(name, error)
}

function withName(identifier: Identifier, { code, message, problem }: AcmeError): AcmeError {
  const text = `${identifier.value}: ${message}`
  if (!problem) return new AcmeError(code, text)
  const subproblems = [{ type: problem.type, detail: problem.detail, identifier }]
  return new AcmeError(code, text, { problem: { ...problem, subproblems } })
}

/** The name as it was ordered. */
const nameOf = ({ identifier, wildcard }: AcmeAuthorization | Task): Identifier =>
  wildcard ? { type: 'dns', value: `*.${identifier.value}` } : identifier

function combine(errors: readonly AcmeError[]): AcmeError {
  const message = errors.map(({ message }) => message).join('; ')
  const subproblems = errors.flatMap(({ problem }) => problem?.subproblems ?? [])
  const { code, problem } = errors[0] as AcmeError
  return new AcmeError(code, message, problem && { problem: { ...problem, subproblems } })
}
