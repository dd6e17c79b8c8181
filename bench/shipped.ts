import { cpuOf } from './acme-server.ts'
import { type Child, startChild } from './harness/child.ts'
import { type Effort, median } from './harness/compare.ts'
import { startIssuer } from './harness/issuer.ts'
import type { LoadResult, RequestsId } from './harness/load-generator.ts'
import { compared, type Row, stated } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { API_KEY } from './harness/service-files.ts'
import {
  anonymousRequest,
  checkRequest,
  programRequest,
  scriptRequest,
} from './harness/visitors.ts'
import { driveOf } from './peers/checks.ts'
import {
  APP,
  forge,
  gatehouseFiles,
  gatehousePlaces,
  gatehouseStart,
  startIdp,
} from './peers/gatehouse.ts'
import { signIn } from './peers/sign-ins.ts'
import { takeTurns } from './peers/turns.ts'

const PEOPLE = 1_000
/** People who sign in before those whose sign-ins are measured. */
const FIRST_PEOPLE = 500
const MINUTE = 60_000
/** The arguments of `bare-check`, by the answer that it gives. */
const BARE = { 200: [], 302: ['redirecting'], 401: ['refusing'] } as const
type Status = keyof typeof BARE

const COLD = 'shipped: each of the first 1,000 checks of a process / of a bare Fastify route'
const SIGN_IN = 'shipped: a whole sign-in, of six requests'

/** forward-auth as it ships: the bundle with its defaults, which has a log and metrics. In CPU time. */
export async function* shipped({ rounds, wants }: Effort): AsyncGenerator<Row> {
  const issuer = await startIssuer()
  const idp = await startIdp(PEOPLE + FIRST_PEOPLE)
  const files = await gatehouseFiles(idp, issuer)
  const start = await gatehouseStart(files.config, files.port)
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const places = gatehousePlaces(files.port, idp)
  const seen = await start()
  await signIn(places, APP, FIRST_PEOPLE)
  const before = cpuOf(seen.pid)
  const cookies = await signIn(places, APP, PEOPLE)
  const signedIn = ((cpuOf(seen.pid) - before) / PEOPLE) * 1e3
  await seen.stop()
  if (wants(SIGN_IN)) yield stated(SIGN_IN, signedIn, 'ms')

  const check = (cookie: string) => checkRequest(`theme=dark; ${cookie}; app_session=012345678901`)
  const checks = cookies.map(check)
  const tokens = issuer.tokens('RS256', PEOPLE).map((token) => programRequest(`Bearer ${token}`))
  const all: readonly (readonly [what: string, requests: readonly string[], status: Status])[] = [
    ['of a session seen before', checks, 200],
    ['of an API key', [programRequest(`APIKey ${API_KEY}`)], 200],
    ['of a token seen before', tokens, 200],
    ['when nobody is signed in, of a page', [anonymousRequest()], 302],
    ['when nobody is signed in, of a script', [scriptRequest()], 401],
    ['of a forged session', cookies.map((cookie) => check(forge(cookie))), 302],
  ]
  const cases = all.map(([what, requests, status]) => {
    const name = `shipped: check ${what} / bare Fastify route`
    return { name, requests, status, figures: new Map<'check' | 'bare', number[]>() }
  })
  const chosen = cases.filter(({ name }) => wants(name))
  const cold = { check: [] as number[], bare: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    const server = await start()
    const bare = new Map<Status, Child<ServerReady>>()
    for (const status of [200, 302, 401] as const) bare.set(status, await startBare(BARE[status]))
    cold.check.push(await firstAnswers(generator, server, checks))
    cold.bare.push(await firstAnswers(generator, addressOf(bare.get(200)!), checks))
    for (const { requests, status, figures } of chosen) {
      const sides = {
        check: await driveOf(generator, server, requests, status),
        bare: await driveOf(generator, addressOf(bare.get(status)!), requests, status),
      }
      await takeTurns(sides, figures, 2 * requests.length)
    }
    await Promise.all([server.stop(), ...Array.from(bare.values(), (each) => each.stop())])
  }
  await generator.stop()
  files.remove()
  issuer.close()
  await idp.close()
  if (wants(COLD)) yield microseconds(COLD, cold.check, cold.bare)
  for (const { name, figures } of chosen)
    yield microseconds(name, figures.get('check')!, figures.get('bare')!)
}

function startBare(args: readonly string[]): Promise<Child<ServerReady>> {
  return startChild<ServerReady>('../sides/bare-check.ts', { core: 0, args })
}

function addressOf({ ready: { port }, pid }: Child<ServerReady>) {
  return { port, pid }
}

/** What each of the first answers of a process takes: one for each request. */
async function firstAnswers(
  generator: Child,
  { port, pid }: { readonly port: number; readonly pid: number },
  requests: readonly string[],
): Promise<number> {
  const id = await generator.call<RequestsId>(requests)
  const before = cpuOf(pid)
  const load = { port, connections: 64, requests: id, ms: MINUTE, most: requests.length }
  const { answers } = await generator.call<LoadResult>({ ...load, status: 200 })
  return ((cpuOf(pid) - before) / answers) * 1e6
}

function microseconds(name: string, values: readonly number[], bare: readonly number[]): Row {
  const [value, baseline] = [median(values), median(bare)]
  // Each from a turn that followed that of the other one.
  const ratio = median(values.map((each, n) => each / bare[n]!))
  return compared({ name, value, unit: 'µs', baseline, ratio })
}
