import { RENEW_EVERY } from '@gatehouse/issuance/times'
import type { Test } from 'tap'
import type {
  ScriptedCa,
  ScriptedCaOptions,
} from '../../../../packages/acme/test/scripted-ca/index.ts'
import {
  briskClock as clockOf,
  problem,
  startCa,
  WAIT,
} from '../../../../packages/issuance/test/helpers/acme.ts'
import type { AppDeps } from '../../src/app.ts'
import { CHECK_STORE_EVERY } from '../../src/issuance/upkeep.ts'
import { type LeapClock, NOW, type Running, start } from './app.ts'

/** The pauses of the loops that look for what is due, which would never rest if they passed at once. */
const LOOPS = [CHECK_STORE_EVERY, RENEW_EVERY]

export { problem, startCa, WAIT }

/** Polling pauses pass at once, while longer times and those of loops wait for the test to advance. */
export const briskClock = (begin = NOW, loops = LOOPS): LeapClock => clockOf(begin, loops)

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

/** Asks for a certificate; tells how it went. */
export const post = ({ call }: Running, domain = 'app.example.com', more: object = {}) =>
  call('POST', '/api/certificate', { domain, ...more })
