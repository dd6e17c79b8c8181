import { RENEW_EVERY } from '@gatehouse/issuance/times'
import type { Test } from 'tap'
import {
  type Reply,
  type ScriptedCa,
  type ScriptedCaOptions,
  startScriptedCa,
} from '../../../../packages/acme/test/scripted-ca/index.ts'
import type { AppDeps } from '../../src/app.ts'
import { CHECK_STORE_EVERY } from '../../src/issuance/upkeep.ts'
import { type LeapClock, leapClock, NOW, type Running, start } from './app.ts'

/** What callers are made to wait, in the tests. */
export const WAIT = 60_000

/** The pauses of the loops that look for what is due, which would never rest if they passed at once. */
const LOOPS = [CHECK_STORE_EVERY, RENEW_EVERY]

/** Polling pauses pass at once, while longer times and those of `held` wait for the test to advance. */
export function briskClock(begin = NOW, held: readonly number[] = LOOPS): LeapClock {
  const clock = leapClock(begin)
  return {
    ...clock,
    setTimer(fn, ms) {
      if (ms >= WAIT || held.includes(ms)) return clock.setTimer(fn, ms)
      const immediate = setImmediate(fn)
      return { cancel: () => clearImmediate(immediate) }
    },
  }
}

/** An issuer `acme` at a scripted CA, with everything that a configuration needs for it. */
export function issuerAt(ca: ScriptedCa, changes: object = {}): object {
  return {
    name: 'acme',
    type: 'acme',
    directory: ca.directoryUrl.href,
    challenges: [{ type: 'http-01' }],
    ...changes,
  }
}

interface Options extends Partial<AppDeps> {
  readonly folder?: string
  readonly clock?: LeapClock
  readonly ca?: ScriptedCa
  readonly config?: object
  readonly issuer?: never
  readonly issuerOptions?: object
}

/** A service with one ACME issuer for every name, and its CA. */
export async function startAcme(
  t: Test,
  caOptions: ScriptedCaOptions = {},
  { ca: given, config = {}, issuerOptions = {}, clock = briskClock(), ...deps }: Options = {},
): Promise<{ ca: ScriptedCa; clock: LeapClock; running: Running }> {
  const ca = given ?? (await startCa(t, clock, caOptions))
  const changes = {
    server: { plainHttp: { port: 0 } },
    issuance: { wait: '60s' },
    issuers: [issuerAt(ca, issuerOptions)],
    ...config,
  }
  const running = await start(t, changes, { ...deps, clock })
  return { ca, clock, running }
}

/** A scripted CA that lives by the clock of the test. */
export async function startCa(
  t: Test,
  clock: LeapClock,
  options: ScriptedCaOptions = {},
): Promise<ScriptedCa> {
  const ca = await startScriptedCa({ now: clock.now, ...options })
  t.teardown(() => ca.close())
  return ca
}

/** What a CA answers to what it refuses. */
export const problem = (status: number, type: string, detail = type, headers = {}): Reply => ({
  status,
  headers,
  body: { type: `urn:ietf:params:acme:error:${type}`, detail },
})

/** Asks for a certificate; tells how it went. */
export const post = ({ call }: Running, domain = 'app.example.com', more: object = {}) =>
  call('POST', '/api/certificate', { domain, ...more })
