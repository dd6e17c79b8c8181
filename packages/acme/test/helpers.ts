import { createFetch } from '@gatehouse/net'
import { buildCsr, generateP256, parseName } from '@gatehouse/pki'
import {
  type ChallengeTask,
  createOrder,
  createTransport,
  isOver,
  newAccount,
  type OrderIo,
  type OrderOptions,
  type OrderState,
  type Solver,
  step,
} from '../src/index.ts'
import {
  hurriedClock,
  type Reply,
  type ScriptedCaOptions,
  startScriptedCa,
} from './scripted-ca/index.ts'

interface Context {
  teardown(fn: () => unknown): void
}

/** A CA, and a transport to it; both gone with the test. */
export async function connect(t: Context, options: ScriptedCaOptions = {}, timeoutMs?: number) {
  const clock = hurriedClock()
  const ca = await startScriptedCa({ now: clock.now, ...options })
  const fetch = createFetch()
  t.teardown(async () => {
    await fetch.close()
    await ca.close()
  })
  const { directoryUrl } = ca
  const userAgent = 'gatehouse-test/1.0'
  const given = { directoryUrl, fetch, clock, userAgent, ...(timeoutMs && { timeoutMs }) }
  return { ca, clock, transport: createTransport(given) }
}

/** A CA with an account, and what the steps of an order need; `answers` is what solvers did. */
export async function enrol(t: Context, options: ScriptedCaOptions = {}, timeoutMs?: number) {
  const { ca, clock, transport } = await connect(t, options, timeoutMs)
  const { privateKey: key } = generateP256()
  const request = { contact: ['mailto:ops@example.com'], termsOfServiceAgreed: true }
  const { url: accountUrl } = await transport.send(newAccount(key, request), { key })
  const { solver, log, present } = recordingSolver()
  const warnings: unknown[] = []
  const io: OrderIo = {
    transport,
    account: { accountUrl, key },
    solversFor: () => [solver],
    clock,
    warn: (error) => warnings.push(error),
  }
  return { ca, clock, transport, io, log, present, solver, warnings }
}

/** A solver that writes down what it did; `present` holds the tokens that stand. */
export function recordingSolver(type: Solver['type'] = 'dns-01') {
  const log: string[] = []
  const present = new Map<string, ChallengeTask>()
  const label = ({ identifier, wildcard }: ChallengeTask) =>
    `${wildcard ? '*.' : ''}${identifier.value}`
  const solver: Solver = {
    type,
    async present(task) {
      log.push(`present ${label(task)}`)
      present.set(task.token, task)
    },
    async cleanUp(task) {
      log.push(`cleanUp ${label(task)}`)
      present.delete(task.token)
    },
  }
  return { solver, log, present }
}

const requestFor = (...names: string[]): Buffer => buildCsr(generateP256(), names.map(parseName))

export const orderFor = (names: string[], options: Omit<OrderOptions, 'csr'> = {}) =>
  createOrder({ csr: requestFor(...names), ...options })

/** Every state of the order up to its end, each one through JSON as a store would keep it. */
export async function run(first: OrderState, io: OrderIo): Promise<OrderState[]> {
  const states = [first]
  for (let state = first; !isOver(state); states.push(state))
    state = JSON.parse(JSON.stringify(await step(state, io)))
  return states
}

export const stepsOf = (states: readonly OrderState[]): string =>
  states.map(({ step }) => step).join(' ')

/** The steps of an order that meets no trouble. */
export const WHOLE = 'created ordered authorizing ordered finalizing valid downloaded'

/** The last state, which must be of that step. */
export function last<S extends OrderState['step']>(states: readonly OrderState[], step: S) {
  const state = states.at(-1)
  if (state?.step !== step) throw new Error(`ended as ${JSON.stringify(state)}`)
  return state as Extract<OrderState, { step: S }>
}

/** A problem document of RFC 8555. */
export const problem = (status: number, type: string, headers = {}): Reply => ({
  status,
  headers,
  body: { type: `urn:ietf:params:acme:error:${type}`, detail: `${type} happened` },
})
