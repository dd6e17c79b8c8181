import { statSync } from 'node:fs'
import { join } from 'node:path'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { bundle } from '../scripts/bundle.ts'
import { buildApp } from '../services/forward-auth/src/app.ts'
import { loadForwardAuthConfig } from '../services/forward-auth/src/config/load.ts'
import { type Effort, median } from './harness/compare.ts'
import { atMost, type Row, stated } from './harness/rows.ts'
import { forwardAuthFiles } from './harness/service-files.ts'
import { storeVisitors, storeVisitorsBeside, visitorCookies } from './harness/visitors.ts'
import { startMs } from './start.ts'

/** Sessions that one process has to keep in memory. */
const LIVE = 40_000
const STORED = 200_000
/** The longest start with so many, in ms. */
const MAX_START = 2_000
const number = (n: number) => n.toLocaleString('en-GB')
const READS = `sessions: reads of the store for ${number(LIVE)}, each checked twice / one each`
const START = `sessions: start of forward-auth as bundle with ${number(STORED)} in its store / allowed`
const BYTES = 'sessions: bytes of the store for each'

/** The records of sessions: how often they are read, and what many of them cost a start. */
export async function* sessions({ rounds, wants }: Effort): AsyncGenerator<Row> {
  if (wants(READS)) yield await countReads()
  if (wants(START) || wants(BYTES)) yield* startWithMany(rounds)
}

async function countReads(): Promise<Row> {
  const files = forwardAuthFiles('error')
  const { value: config } = await loadForwardAuthConfig(files.config, {})
  const log = createLogger({ ...config.log, name: 'forward-auth' })
  const app = await buildApp(config, { log })
  await storeVisitors(app.authStore, LIVE)
  const { findSession } = app.authStore
  let reads = 0
  app.authStore.findSession = (sid) => {
    reads += 1
    return findSession.call(app.authStore, sid)
  }
  const asked = {
    ...{ 'x-forwarded-method': 'GET', 'x-forwarded-proto': 'https' },
    ...{ 'x-forwarded-host': 'app.example.com', 'x-forwarded-uri': '/' },
  }
  const cookies = visitorCookies(LIVE)
  for (const cookie of [...cookies, ...cookies]) {
    const headers = { ...asked, cookie }
    const { statusCode } = await app.inject({ url: '/portals/main', headers })
    if (statusCode !== 200) throw new Error(`a check was answered with ${statusCode}`)
  }
  await app.close()
  files.remove()
  const ratio = reads / LIVE
  return atMost({ name: READS, value: reads, unit: '', baseline: LIVE, ratio, target: 1, noise: 0 })
}

async function* startWithMany(rounds: number): AsyncGenerator<Row> {
  const files = forwardAuthFiles()
  const folder = await storeVisitorsBeside(files.config, STORED)
  const program = await bundle('forward-auth')
  const figures: number[] = []
  for (let n = 0; n < rounds; n++)
    figures.push(await startMs([program, 'serve', '--config', files.config]))
  const value = median(figures)
  const ratio = value / MAX_START
  yield atMost({
    ...{ name: START, value, unit: 'ms', baseline: MAX_START, ratio },
    ...{ target: 1, noise: 0 },
  })
  yield stated(BYTES, statSync(join(folder, 'revocations.db')).size / STORED, 'bytes')
  files.remove()
}
