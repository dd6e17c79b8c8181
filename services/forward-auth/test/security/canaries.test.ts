import { readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { createFetch, type FetchAnswer, type FetchOptions } from '@gatehouse/net'
import { createLogger, createMetrics } from '@gatehouse/service-kit/telemetry'
import { type ManualClock, manualClock, testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import type { Hostility } from '../../../../packages/identity-providers/test/stand-ins/hostility.ts'
import {
  type OpenIdProvider,
  startOpenIdProvider,
} from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { buildApp } from '../../src/app.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { deriveKeys } from '../../src/keys/key-ring.ts'
import { TICKET } from '../../src/session/hop.ts'
import { STATE_FILE } from '../../src/store/sqlite/sqlite-store.ts'
import { DOMAINS } from '../app.ts'
import { AUTH, MAIN, SCRIPT, signInUrl } from '../portal/kit.ts'
import { SHAPES } from '../shapes.ts'
import { createVisitor, type Visitor } from '../visitor.ts'

const SESSION_SECRET = 'canary-of-the-session-key-0123456789'
const SESSION_COOKIE = '__Host-gatehouse.main'
const HOSTS = ['app.example.com', 'b.example.com']
const APP_COOKIE = '__Host-gatehouse-app.main'

t.test('no log, page, problem or metric contains a secret', async (t) => {
  const provider = await startOpenIdProvider(t)
  const secrets = new Set([SESSION_SECRET, provider.options.clientSecret])
  const { app, clock, log, metrics, answers, store } = await startListening(t, provider, secrets)
  const run: Run = {
    ...{ provider, clock },
    visitor: () => listening(createVisitor(app), secrets, answers),
    check: async (headers) => {
      const { method, path, headers: sent } = SHAPES[0]!
      const url = `/portals/main${path}`
      answers.push(
        await app.inject({ method: method as 'GET', url, headers: { ...sent, ...headers } }),
      )
    },
  }

  await signInAndOut(run)
  for (const failure of FAILURES) await failSigningIn(run, failure)
  await sendNonsense(run, [...secrets])

  const places = {
    log: log.join(''),
    metrics: await metrics.text(),
    answers: answers.map(textOf).join('\n'),
    store: await readFile(store, 'latin1'),
    audit: (await auditOf(dirname(store), app)).join('\n'),
  }
  for (const table of ['sessions', 'visits']) t.match(places.store, table)
  t.match(places.store, HOSTS[0], 'where she was seen is written')
  t.match(places.audit, /"access-refused".*"path"/)
  t.ok(log.length > 30 && answers.length > 50, `${log.length} lines, ${answers.length} answers`)
  t.ok(secrets.size > 50, `${secrets.size} secrets`)
  for (const [place, text] of Object.entries(places)) {
    const found = [...secrets].filter((secret) => text.includes(secret))
    const excerpts = found.map((secret) =>
      text.slice(Math.max(0, text.indexOf(secret) - 200)).slice(0, 400),
    )
    t.strictSame(excerpts, [], place)
  }
})

/** The rows of the audit trail. */
async function auditOf(folder: string, app: FastifyInstance): Promise<string[]> {
  await app.auditTrail.flush()
  const files = await readdir(join(folder, 'audit'))
  return Promise.all(files.map((file) => readFile(join(folder, 'audit', file), 'utf8')))
}

interface Run {
  readonly provider: OpenIdProvider
  readonly clock: ManualClock
  readonly visitor: () => Visitor
  readonly check: (headers: Record<string, string>) => Promise<void>
}

/** The whole service, at the most talkative level of its log. */
async function startListening(t: Test, provider: OpenIdProvider, secrets: Set<string>) {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  const portal = { name: 'main', providers: [{ ...provider.options, timeout: '2s' }] }
  const yaml = `${DOMAINS}\nportals: ${JSON.stringify([portal])}\nsession: { keys: [{ secret: ${SESSION_SECRET} }] }`
  await writeFile(file, yaml)
  const { value: config } = await loadForwardAuthConfig(file, {})
  for (const purpose of ['session', 'record', 'login', 'store'] as const)
    for (const encoding of ['hex', 'base64', 'base64url'] as const)
      secrets.add(deriveKeys([SESSION_SECRET], purpose).first.secret.toString(encoding))

  const log: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      log.push(String(chunk))
      done()
    },
  })
  const logger = createLogger({ name: 'test', level: 'trace', format: 'json', stream })
  const metrics = createMetrics({ service: 'forward-auth', version: '0' })
  const clock = manualClock()
  const app = await buildApp(config, {
    clock,
    log: logger,
    metrics,
    createFetch: (options) => overhearing(options, secrets),
  })
  t.teardown(() => app.close())
  const answers: LightMyRequestResponse[] = []
  const { path } = config.storage as { path: string }
  return { app, clock, log, metrics, answers, store: join(path, STATE_FILE) }
}

/** What goes to the provider and comes from it: codes, verifiers, credentials, tokens. */
function overhearing(options: FetchOptions, secrets: Set<string>) {
  const fetch = createFetch(options)
  const asked: typeof fetch = Object.assign(
    async (url: URL | string, init: Parameters<typeof fetch>[1] = {}): Promise<FetchAnswer> => {
      const sent = Object.fromEntries(new Headers(init.headers))
      for (const secret of [sent.authorization?.replace(/^\w+ /, '')])
        if (secret) secrets.add(secret)
      const form = new URLSearchParams(String(init.body ?? ''))
      for (const name of ['code', 'code_verifier']) if (form.has(name)) secrets.add(form.get(name)!)
      const answer = await fetch(url, init)
      for (const [, token = ''] of String(answer.body).matchAll(
        /"(?:access|id|refresh)_token":"([^"]+)"/g,
      ))
        secrets.add(token)
      const [, start] = /"access_token":"([^"]{10})/.exec(String(answer.body)) ?? []
      if (start) secrets.add(start)
      return String(url).endsWith('/token') && mangle
        ? { ...answer, body: mangle(answer.body) }
        : answer
    },
    { close: fetch.close },
  )
  return asked
}

/** Cuts what the token endpoint has said. */
let mangle: ((body: Buffer) => Buffer) | undefined

/** A browser whose cookies, states and nonces are secrets, and whose answers are kept. */
function listening(
  visitor: Visitor,
  secrets: Set<string>,
  answers: LightMyRequestResponse[],
): Visitor {
  const heard = (answer: LightMyRequestResponse): LightMyRequestResponse => {
    answers.push(answer)
    for (const host of [...HOSTS, 'auth.example.com'])
      for (const value of visitor.jarOf(host).values())
        for (const part of value.split('.')) secrets.add(part)
    const { searchParams } = new URL(answer.headers.location ?? AUTH)
    for (const name of ['state', 'nonce', 'code_challenge', TICKET])
      if (searchParams.has(name)) secrets.add(searchParams.get(name)!)
    return answer
  }
  return {
    ...visitor,
    open: async (url, visit) => heard(await visitor.open(url, visit)),
    visit: async (url, visit) => heard(await visitor.visit(url, visit)),
  }
}

/** Where secrets belong is left out: cookies, the way to the provider, and a ticket on its way to the app. */
function textOf({ body, headers }: LightMyRequestResponse): string {
  const { 'set-cookie': _, location = '', ...rest } = headers
  const isToProvider = location.startsWith('http://127.0.0.1')
  const [shown] = location.split(`${TICKET}=`)
  return `${body}${JSON.stringify(rest)}${isToProvider ? '' : shown}`
}

async function arrive({ provider }: Run, visitor: Visitor): Promise<URL> {
  const begun = await visitor.open(signInUrl())
  if (provider.hostility.discovery)
    return new URL(`${MAIN}/providers/corp/callback?code=canary-code`)
  return createBrowser().signIn(begun.headers.location ?? '', 'alice')
}

/** Goes from an app to the sign-in host and back, and once more with the same ticket. */
async function hop(visitor: Visitor, url: string): Promise<void> {
  const sent = await visitor.visit(url)
  const back = await visitor.open(sent.headers.location ?? '')
  const arrival = back.headers.location ?? ''
  if (!arrival.includes(`${TICKET}=`)) throw new Error(`no ticket: ${arrival}`)
  await visitor.visit(arrival)
  await visitor.visit(arrival)
  await visitor.visit(arrival, { headers: { cookie: '' } })
  await visitor.visit(url)
}

async function signInAndOut(run: Run): Promise<void> {
  const alice = run.visitor()
  const callback = await arrive(run, alice)
  for (const url of [callback, callback]) await alice.open(url)
  const token = alice.jar.get(SESSION_COOKIE) ?? ''
  if (token === '') throw new Error('nobody is signed in')
  for (const path of [
    '/signin',
    '/profile',
    '/account',
    '/profile.json',
    '/logout',
    '/signin?switch=1',
  ])
    for (const headers of [{}, SCRIPT]) await alice.open(`${MAIN}${path}`, { headers })
  for (const bearer of [token, `${token}x`, 'x'])
    await alice.open(`${AUTH}/api/portals/main/verify`, {
      headers: { ...SCRIPT, authorization: `Bearer ${bearer}` },
    })
  for (const host of HOSTS) await hop(alice, `https://${host}/at/the/app`)
  if (!alice.jarOf('app.example.com').has(APP_COOKIE)) throw new Error('no app knows her')
  const cookie = alice.cookies('app.example.com')
  // The provider is asked again, and when she was seen is written.
  await run.clock.advance(20 * 60_000)
  await run.check({ cookie })
  await run.check({ cookie, 'x-forwarded-host': 'evil.test' })
  const opened = { 'sec-fetch-mode': 'navigate', accept: 'text/html', 'x-forward-auth-if': 'true' }
  await run.check({ ...opened, cookie })
  await run.clock.advance(60_000)
  await alice.open(`${MAIN}/logout`, { method: 'POST', headers: { origin: 'https://evil.test' } })
  await alice.open(`${MAIN}/logout`, { method: 'POST', headers: { origin: AUTH } })
}

type Failure = { readonly [at in keyof OpenIdProvider['hostility']]: Hostility } & {
  readonly mangle?: typeof mangle
}

const FAILURES: readonly Failure[] = [
  ...(['error', 'html', 'limited', 'not json', 'redirect', 'torn'] as const).flatMap(
    (hostility) => [{ token: hostility }, { keys: hostility }, { userInfo: hostility }],
  ),
  { token: (answer) => ({ ...answer, id_token: `${answer.id_token}x` }) },
  { token: (answer) => ({ ...answer, token_type: answer.access_token }) },
  { token: () => ({ error: 'invalid_client' }) },
  { userInfo: () => ({ sub: 'somebody else' }) },
  { mangle: (body) => Buffer.from(`${JSON.parse(String(body)).access_token}`) },
  { mangle: (body) => Buffer.from(`"${JSON.parse(String(body)).access_token}`) },
  { mangle: (body) => body.subarray(0, -1) },
]

async function failSigningIn(run: Run, { mangle: mangling, ...hostility }: Failure): Promise<void> {
  const { provider } = run
  const visitor = run.visitor()
  const callback = await arrive(run, visitor)
  Object.assign(provider.hostility, hostility)
  mangle = mangling
  await visitor.open(callback)
  for (const endpoint of Object.keys(hostility) as (keyof typeof provider.hostility)[])
    delete provider.hostility[endpoint]
  mangle = undefined

  const other = await arrive(run, run.visitor())
  await visitor.open(other)
  const { searchParams } = callback
  searchParams.set('error', 'access_denied')
  searchParams.set('error_description', 'no')
  await visitor.open(callback)
}

/** Secrets in places where they do not belong. */
async function sendNonsense(run: Run, secrets: readonly string[]): Promise<void> {
  for (const secret of secrets.slice(0, 40)) {
    const visitor = run.visitor()
    const query = encodeURIComponent(secret)
    const headers = {
      ...SCRIPT,
      authorization: `Bearer ${secret}`,
      cookie: `${SESSION_COOKIE}=${secret}; ${APP_COOKIE}=${secret}`,
    }
    await visitor.open(`${MAIN}/providers/corp/callback?state=${query}&code=${query}`, { headers })
    await visitor.open(`${AUTH}/api/portals/main/verify?token=${query}`, { headers })
    await visitor.open(`${AUTH}/nothing?token=${query}`, { headers })
    await run.check(headers)
    await visitor.visit(`https://app.example.com/?${TICKET}=${query}`)
  }
}
