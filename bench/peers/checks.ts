import { dirname, join } from 'node:path'
import { type DemoIdp, startDemoIdp } from '../../examples/demo-idp/src/index.ts'
import { bundle } from '../../scripts/bundle.ts'
import { freePort } from '../../scripts/free-ports.ts'
import { type Child, startChild } from '../harness/child.ts'
import { AUDIENCE, startIssuer, type TestIssuer } from '../harness/issuer.ts'
import type { LoadResult, RequestsId } from '../harness/load-generator.ts'
import { type Running, residentOf, startProgram } from '../harness/program.ts'
import { type ServiceFiles, writeConfig } from '../harness/service-files.ts'
import { anonymousRequest, checkRequest, programRequest } from '../harness/visitors.ts'
import { type Place, signIn } from './sign-ins.ts'
import { type Figure, figureOf, measured, takeOnce, takeTurns } from './turns.ts'

const PROGRAMS = 1_000
const APP = 'https://app.example.com/'
const SECRET = 'a secret of 32 bytes: abcdefghij'
const CLIENT = { clientId: 'bench', clientSecret: 'the-secret-of-the-bench' }

const SIDES = ['Gatehouse', 'oauth2-proxy'] as const
type Side = (typeof SIDES)[number]

/** A row of figures by side. */
export type Row = readonly [what: string, figures: Readonly<Partial<Record<string, Figure>>>]

interface Case {
  readonly what: string
  readonly requests: Readonly<Record<Side, readonly string[]>>
  readonly status: Readonly<Record<Side, number>>
  /** Whether each request is the first of its session. */
  readonly isFirst?: boolean
}

/** Starts a side with what it has kept since it was started first. */
type Start = () => Promise<Running>

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
  const cookies = await signInEverywhere(starts, idp, people)
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
  yield ['resident memory just started, MiB', bySide(resident.idle)]
  yield [`resident memory after checks of ${count(people)} sessions, MiB`, bySide(resident.full)]
}

const count = (n: number) => n.toLocaleString('en-GB')

const bySide = (values: ReadonlyMap<Side, number[]> = new Map()) =>
  Object.fromEntries(SIDES.map((side) => [side, figureOf(values.get(side))]))

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
    const { length } = requests.Gatehouse
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
  const drive = async (side: Side) => {
    const id = await generator.call<RequestsId>(requests[side])
    const { port, pid } = servers[side]
    const load = { port, connections: 64, requests: id, status: status[side] }
    return measured(pid, async (ms) => (await generator.call<LoadResult>({ ...load, ms })).answers)
  }
  return { Gatehouse: await drive('Gatehouse'), 'oauth2-proxy': await drive('oauth2-proxy') }
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
    { what: 'not signed in', requests: both(() => [anonymousRequest()]), status: refuses },
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

/** Changes eight letters of each signature, with which each of the cookies ends. */
const forge = (cookie: string): string =>
  cookie.replace(/[\w-]{8}(?=[\w=-]{12}(?:;|$))/g, 'AAAAAAAA')

async function signInEverywhere(starts: Record<Side, Start>, idp: DemoIdp, people: number) {
  const provider = { port: Number(new URL(idp.url).port) }
  const forwarded = (url: URL) => ({
    'x-forwarded-for': '198.51.100.7',
    'x-forwarded-proto': 'https',
    'x-forwarded-host': url.host,
  })
  const cookies = {} as Record<Side, readonly string[]>
  for (const side of SIDES) {
    process.stderr.write(`${count(people)} people sign in at ${side} ...\n`)
    const server = await starts[side]()
    const own: Place = { port: server.port, headers: forwarded }
    const app: Place = {
      ...own,
      path: () => '/portals/main',
      headers: (url) => ({
        ...forwarded(url),
        'x-forwarded-method': 'GET',
        'x-forwarded-uri': `${url.pathname}${url.search}`,
      }),
    }
    const places: Record<string, Place> =
      side === 'Gatehouse'
        ? { 'app.example.com': app, 'auth.example.com': own, '127.0.0.1': provider }
        : { 'app.example.com': own, '127.0.0.1': provider }
    const start = side === 'Gatehouse' ? APP : `${APP}oauth2/start?rd=%2Foauth2%2Fauth`
    cookies[side] = await signIn(places, start, people)
    await server.stop()
  }
  return cookies
}

/** A provider where whoever comes next is the next person. */
function startIdp(count: number): Promise<DemoIdp> {
  const ids = Array.from(
    { length: count },
    (_, n) => `5f0c2c1e-93a4-4f57-b0d8-${`${n}`.padStart(12, '0')}`,
  )
  const people = new Map(
    ids.map((id, n) => [
      id,
      {
        ...{ name: `Ada Lovelace ${n}`, given_name: 'Ada', family_name: `Lovelace ${n}` },
        ...{ email: `ada.${n}@example.com`, email_verified: true },
        groups: ['staff', 'engineering'],
      },
    ]),
  )
  let turn = 0
  const redirectUris = [
    'https://auth.example.com/portals/main/providers/corp/callback',
    `${APP}oauth2/callback`,
  ]
  return startDemoIdp({
    clients: [{ ...CLIENT, redirectUris }],
    people,
    signsIn: () => ids[turn++ % count],
  })
}

async function gatehouseFiles(
  idp: DemoIdp,
  issuer: TestIssuer,
): Promise<ServiceFiles & { readonly port: number }> {
  const port = await freePort()
  const files = writeConfig(`server: { port: ${port}, trustedProxies: [127.0.0.0/8] }
metrics: { port: 0 }
storage: { path: data }
domains: [{ domain: example.com, authHost: auth.example.com }]
portals:
  - name: main
    providers:
      - type: openIDConnect
        name: corp
        issuerUrl: ${idp.issuer}
        clientId: ${CLIENT.clientId}
        clientSecret: ${CLIENT.clientSecret}
        scopes: [openid, profile, email, groups]
    callers:
      issuers: [{ name: ci, issuerUrl: "${issuer.url}", audience: "${AUDIENCE}", hosts: [app.example.com] }]
`)
  return { ...files, port }
}

/** As the images start it. */
async function gatehouseStart(config: string, port: number): Promise<Start> {
  const program = await bundle('forward-auth')
  const args = ['--max-semi-space-size=8', program, 'serve', '--config', config]
  return () => startProgram([process.execPath, ...args], port, { HOME: dirname(join(config)) })
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
