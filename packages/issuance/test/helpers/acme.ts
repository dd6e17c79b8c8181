import type { Test } from 'tap'
import {
  type Reply,
  type ScriptedCa,
  type ScriptedCaOptions,
  startScriptedCa,
} from '../../../acme/test/scripted-ca/index.ts'
import type { IssuerConfig } from '../../src/options/issuers.ts'
import { RENEW_EVERY } from '../../src/times.ts'
import { type LeapClock, leapClock } from '../leap-clock.ts'
import { NOW, openStage, type Stage, type StageOptions } from './stage.ts'

/** What callers are made to wait, in the tests. */
export const WAIT = 60_000

/** Polling pauses pass at once, while longer times and those of loops wait for the test to advance. */
export function briskClock(start = NOW, loops: readonly number[] = [RENEW_EVERY]): LeapClock {
  const clock = leapClock(start)
  return {
    ...clock,
    setTimer(fn, ms) {
      if (ms >= WAIT || loops.includes(ms)) return clock.setTimer(fn, ms)
      const immediate = setImmediate(fn)
      return { cancel: () => clearImmediate(immediate) }
    },
  }
}

/** The configuration of an issuer `acme` at a scripted CA. */
export function issuerAt(ca: ScriptedCa, changes: Partial<IssuerConfig> = {}): IssuerConfig {
  return {
    ...{ name: 'acme', type: 'acme', names: ['*'], agreeToTerms: false },
    directory: ca.directoryUrl.href,
    challenges: [{ type: 'http-01' }],
    ...changes,
  }
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

interface AcmeOptions extends StageOptions {
  readonly acme?: ScriptedCa
  /** Changes of its issuer. */
  readonly changes?: Partial<IssuerConfig>
}

/** A stage with one ACME issuer for every name, and its CA. */
export async function openAcmeStage(
  t: Test,
  caOptions: ScriptedCaOptions = {},
  { acme, changes, clock = briskClock(), ...options }: AcmeOptions = {},
): Promise<{ ca: ScriptedCa; clock: LeapClock; stage: Stage }> {
  const ca = acme ?? (await startCa(t, clock, caOptions))
  const issuers = [issuerAt(ca, changes)]
  const stage = await openStage(t, { wait: WAIT, issuers, ...options, clock })
  return { ca, clock, stage }
}

/** What a CA answers to what it refuses. */
export const problem = (status: number, type: string, detail = type, headers = {}): Reply => ({
  status,
  headers,
  body: { type: `urn:ietf:params:acme:error:${type}`, detail },
})
