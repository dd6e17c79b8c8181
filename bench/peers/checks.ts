import type { DemoIdp } from '../../examples/demo-idp/src/index.ts'
import { freePort } from '../../scripts/free-ports.ts'
import { cpuOf } from '../acme-server.ts'
import { type Child, startChild } from '../harness/child.ts'
import { AUDIENCE, startIssuer, type TestIssuer } from '../harness/issuer.ts'
import type { LoadResult, RequestsId } from '../harness/load-generator.ts'
import { type Running, residentOf, startProgram } from '../harness/program.ts'
import { API_KEY } from '../harness/service-files.ts'
import {
  anonymousRequest,
  checkRequest,
  programRequest,
  scriptRequest,
} from '../harness/visitors.ts'
import {
  APP,
  CLIENT,
  forge,
  gatehouseFiles,
  gatehousePlaces,
  gatehouseStart,
  type Start,
  startIdp,
} from './gatehouse.ts'
import { signIn } from './sign-ins.ts'
import { type Drive, type Figure, figureOf, measured, takeOnce, takeTurns } from './turns.ts'

const PROGRAMS = 1_000
const SECRET = 'a secret of 32 bytes: abcdefghij'

const SIDES = ['Gatehouse', 'oauth2-proxy'] as const
type Side = (typeof SIDES)[number]

/** A row of figures by side. */
export type Row = readonly [what: string, figures: Readonly<Partial<Record<string, Figure>>>]

interface Case {
  readonly what: string
  /** Of the sides that have such a case. */
  readonly requests: Readonly<Partial<Record<Side, readonly string[]>>>
  readonly status: Readonly<Record<Side, number>>
  /** Whether each request is the first of its session. */
  readonly isFirst?: boolean
}

/** The check that proxies make, at both, for people who have signed in at an OpenID provider. */
export async function* checks(
  oauth2Proxy: string,
  people: number,
  rounds: number,
): AsyncGenerator<Row> {
  const issuer = await startIssuer()
  const idp = await startIdp(people)
  const gatehouse = await gatehouseFiles(idp, issuer)
  const starts: Record<Side, Start> = {
    Gatehouse: await gatehouseStart(gatehouse.config, gatehouse.port),
    'oauth2-proxy': await oauth2ProxyStart(oauth2Proxy, idp, issuer),
  }
  const signIns = new Map<Side, number[]>()
  const cookies = await signInEverywhere(starts, idp, people, signIns)
  const cases = casesOf(cookies, people, issuer.tokens('RS256', PROGRAMS))
  const figures = cases.map(() => new Map<Side, number[]>())
  const resident: Record<'idle' | 'full', Map<Side, number[]>> = {
    idle: new Map(),
    full: new Map(),
  }
  for (let round = 0; round < rounds; round++) await runRound(starts, cases, figures, resident)
  gatehouse.remove()
  issuer.close()
  await idp.close()
  for (const [n, { what }] of cases.entries()) yield [what, bySide(figures[n])]
  yield ['a whole sign-in', bySide(signIns)]
  yield ['resident memory just started, MiB', bySide(resident.idle)]
  yield [`resident memory after checks of ${count(people)} sessions, MiB`, bySide(resident.full)]
}

const count = (n: number) => n.toLocaleString('en-GB')

const bySide = (values: ReadonlyMap<Side, number[]> = new Map()) =>
  Object.fromEntries(Array.from(values, ([side, each]) => [side, figureOf(each)]))

async function runRound(
  starts: Record<Side, Start>,
  cases: readonly Case[],
  figures: readonly Map<Side, number[]>[],
  resident: Record<'idle' | 'full', Map<Side, number[]>>,
): Promise<void> {
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const servers = {
    Gatehouse: await starts.Gatehouse(),
    'oauth2-proxy': await starts['oauth2-proxy'](),
  }
  const note = (of: Map<Side, number[]>) => {
    for (const side of SIDES) of.set(side, [...(of.get(side) ?? []), residentOf(servers[side].pid)])
  }
  note(resident.idle)
  for (const [n, { what, requests, status, isFirst }] of cases.entries()) {
    process.stderr.write(`${what} ...\n`)
    const drives = await drivesOf(generator, servers, requests, status)
    const { length } = Object.values(requests)[0]!
    // Half of them, so that none comes twice. All others have been seen when they are measured.
    if (isFirst) await takeOnce(drives, figures[n]!, length / 2)
    else await takeTurns(drives, figures[n]!, 2 * length)
  }
  // The last case has most sessions.
  note(resident.full)
  await Promise.all([generator.stop(), ...SIDES.map((side) => servers[side].stop())])
}

async function drivesOf(
  generator: Child,
  servers: Record<Side, Running>,
  requests: Case['requests'],
  status: Case['status'],
) {
  const drives: Partial<Record<Side, Drive>> = {}
  for (const [side, each] of Object.entries(requests) as [Side, readonly string[]][])
    drives[side] = await driveOf(generator, servers[side], each, status[side])
  return drives as Record<Side, Drive>
}

/** Has the generator send these requests to a server, over 64 connections. */
export async function driveOf(
  generator: Child,
  { port, pid }: Pick<Running, 'port' | 'pid'>,
  requests: readonly string[],
  status: number,
): Promise<Drive> {
  const id = await generator.call<RequestsId>(requests)
  const load = { port, connections: 64, requests: id, status }
  return measured(pid, async (ms) => (await generator.call<LoadResult>({ ...load, ms })).answers)
}

function casesOf(
  cookies: Record<Side, readonly string[]>,
  people: number,
  tokens: readonly string[],
): Case[] {
  const both = (of: (side: Side) => readonly string[]): Case['requests'] => ({
    Gatehouse: of('Gatehouse'),
    'oauth2-proxy': of('oauth2-proxy').map((text) => text.replace('/portals/main', '/oauth2/auth')),
  })
  const check = (cookie: string) => checkRequest(`theme=dark; ${cookie}; app_session=012345678901`)
  const some = (from: number, to: number, change = (cookie: string) => cookie) =>
    both((side) => cookies[side].slice(from, to).map((cookie) => check(change(cookie))))
  const admits = { Gatehouse: 200, 'oauth2-proxy': 202 }
  const refuses = { Gatehouse: 302, 'oauth2-proxy': 401 }
  return [
    {
      what: "a program's bearer token",
      requests: both(() => tokens.map((token) => programRequest(`Bearer ${token}`))),
      status: admits,
    },
    {
      what: "a program's API key",
      requests: { Gatehouse: [programRequest(`APIKey ${API_KEY}`)] },
      status: admits,
    },
    { what: 'not signed in', requests: both(() => [anonymousRequest()]), status: refuses },
    {
      what: 'not signed in, a script',
      requests: both(() => [scriptRequest()]),
      status: { ...refuses, Gatehouse: 401 },
    },
    { what: 'forged session cookie', requests: some(0, people / 10, forge), status: refuses },
    {
      what: `check, ${count(people / 10)} sessions`,
      requests: some(0, people / 10),
      status: admits,
    },
    {
      what: 'check of a session that the process has not seen yet',
      requests: some(people / 10, people),
      status: admits,
      isFirst: true,
    },
    { what: `check, ${count(people)} sessions`, requests: some(0, people), status: admits },
  ]
}

async function signInEverywhere(
  starts: Record<Side, Start>,
  idp: DemoIdp,
  people: number,
  figures: Map<Side, number[]>,
) {
  const cookies = {} as Record<Side, readonly string[]>
  for (const side of SIDES) {
    process.stderr.write(`${count(people)} people sign in at ${side} ...\n`)
    const server = await starts[side]()
    const own = gatehousePlaces(server.port, idp)
    const places =
      side === 'Gatehouse' ? own : { ...own, 'app.example.com': own['auth.example.com']! }
    const start = side === 'Gatehouse' ? APP : `${APP}oauth2/start?rd=%2Foauth2%2Fauth`
    const before = cpuOf(server.pid)
    cookies[side] = await signIn(places, start, people)
    figures.set(side, [((cpuOf(server.pid) - before) / people) * 1e6])
    await server.stop()
  }
  return cookies
}

async function oauth2ProxyStart(program: string, idp: DemoIdp, issuer: TestIssuer): Promise<Start> {
  const port = await freePort()
  const args = [
    `--http-address=127.0.0.1:${port}`,
    '--reverse-proxy=true',
    '--trusted-proxy-ip=127.0.0.0/8',
    '--set-xauthrequest=true',
    '--upstream=static://202',
    '--email-domain=*',
    '--provider=oidc',
    `--oidc-issuer-url=${idp.issuer}`,
    `--client-id=${CLIENT.clientId}`,
    `--client-secret=${CLIENT.clientSecret}`,
    `--redirect-url=${APP}oauth2/callback`,
    '--scope=openid profile email groups',
    '--code-challenge-method=S256',
    `--cookie-secret=${SECRET}`,
    '--skip-provider-button=true',
    '--skip-jwt-bearer-tokens=true',
    `--extra-jwt-issuers=${issuer.url}=${AUDIENCE}`,
  ]
  return () => startProgram([program, ...args], port, { GOMAXPROCS: '1' })
}
