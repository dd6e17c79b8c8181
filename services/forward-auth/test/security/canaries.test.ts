import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { createFetch, type FetchAnswer, type FetchOptions } from '@gatehouse/net'
import { createLogger, createMetrics } from '@gatehouse/service-kit/telemetry'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import type { LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import type { Hostility } from '../../../../packages/identity-providers/test/stand-ins/hostility.ts'
import {
  type OpenIdProvider,
  startOpenIdProvider,
} from '../../../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { buildApp } from '../../src/app.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { deriveKeys } from '../../src/key-ring.ts'
import { DOMAINS } from '../app.ts'
import { AUTH, MAIN, SCRIPT, signInUrl } from '../routes/kit.ts'
import { SHAPES } from '../shapes.ts'
import { createVisitor, type Visitor } from '../visitor.ts'

const SESSION_SECRET = 'canary-of-the-session-key-0123456789'
const SESSION_COOKIE = '__Secure-gatehouse.main'

t.test('no log, page, problem or metric contains a secret', async (t) => {
  const provider = await startOpenIdProvider(t)
  const secrets = new Set([SESSION_SECRET, provider.options.clientSecret])
  const { app, log, metrics, answers } = await startListening(t, provider, secrets)
  const run: Run = {
    provider,
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
  }
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

interface Run {
  readonly provider: OpenIdProvider
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
  for (const purpose of ['session', 'login', 'store'] as const)
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
  const app = await buildApp(config, {
    clock: manualClock(),
    log: logger,
    metrics,
    createFetch: (options) => overhearing(options, secrets),
  })
  t.teardown(() => app.close())
  const answers: LightMyRequestResponse[] = []
  return { app, log, metrics, answers }
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
      for (const [, token = ''] of String(answer.body).matchAll(/"(?:access|id)_token":"([^"]+)"/g))
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
  const open: Visitor['open'] = async (url, visit) => {
    const answer = await visitor.open(url, visit)
    answers.push(answer)
    for (const value of visitor.jar.values()) for (const part of value.split('.')) secrets.add(part)
    const { searchParams } = new URL(answer.headers.location ?? AUTH)
    for (const name of ['state', 'nonce', 'code_challenge'])
      if (searchParams.has(name)) secrets.add(searchParams.get(name)!)
    return answer
  }
  return { ...visitor, open }
}

/** Where secrets belong is left out: cookies, and the way to the provider. */
function textOf({ body, headers }: LightMyRequestResponse): string {
  const { 'set-cookie': _, location = '', ...rest } = headers
  const isToProvider = location.startsWith('http://127.0.0.1')
  return `${body}${JSON.stringify(rest)}${isToProvider ? '' : location}`
}

async function arrive({ provider }: Run, visitor: Visitor): Promise<URL> {
  const begun = await visitor.open(signInUrl())
  if (provider.hostility.discovery)
    return new URL(`${MAIN}/providers/corp/callback?code=canary-code`)
  return createBrowser().signIn(begun.headers.location ?? '', 'alice')
}

async function signInAndOut(run: Run): Promise<void> {
  const alice = run.visitor()
  const callback = await arrive(run, alice)
  for (const url of [callback, callback]) await alice.open(url)
  const token = alice.jar.get(SESSION_COOKIE) ?? ''
  if (token === '') throw new Error('nobody is signed in')
  for (const path of ['/signin', '/profile', '/profile.json', '/logout', '/signin?switch=1'])
    for (const headers of [{}, SCRIPT]) await alice.open(`${MAIN}${path}`, { headers })
  for (const bearer of [token, `${token}x`, 'x'])
    await alice.open(`${AUTH}/api/portals/main/verify`, {
      headers: { ...SCRIPT, authorization: `Bearer ${bearer}` },
    })
  await run.check({ cookie: alice.cookies() })
  await run.check({ cookie: alice.cookies(), 'x-forwarded-host': 'evil.test' })
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
      cookie: `${SESSION_COOKIE}=${secret}`,
    }
    await visitor.open(`${MAIN}/providers/corp/callback?state=${query}&code=${query}`, { headers })
    await visitor.open(`${AUTH}/api/portals/main/verify?token=${query}`, { headers })
    await visitor.open(`${AUTH}/nothing?token=${query}`, { headers })
    await run.check(headers)
  }
}
