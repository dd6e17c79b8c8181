import {
  constants,
  createHmac,
  generateKeyPairSync,
  type KeyObject,
  type KeyPairKeyObjectResult,
  sign,
} from 'node:crypto'
import Fastify from 'fastify'
import type { Test } from 'tap'
import { Dispatcher } from 'undici'
import auth, { type AuthPluginOptions } from '../src/index.ts'

export const NOW = Date.parse('2030-01-01T00:00:00Z')
export const ISSUER = 'https://issuer.example'
export const AUDIENCE = 'https://api.example'
export const silent = { info() {}, warn() {} }

/** A clock that stands still until it is moved: by time that passes, or by somebody who sets it. */
export function frozenClock() {
  const clock = {
    time: NOW,
    uptime: 0,
    now: () => clock.time,
    elapsed: () => clock.uptime,
    pass(ms: number) {
      clock.time += ms
      clock.uptime += ms
    },
    set(ms: number) {
      clock.time += ms
    },
  }
  return clock
}

const generators: Record<string, () => KeyPairKeyObjectResult> = {
  RS: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  PS: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  ES512: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }),
  EdDSA: () => generateKeyPairSync('ed25519'),
}

/** A signing key as an issuer has it. */
export function signingKey(alg: string, kid: string) {
  const { publicKey, privateKey } = (generators[alg] ?? generators[alg.slice(0, 2)]!)()
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig' }
  return { alg, kid, publicKey, privateKey, jwk }
}

export const encode = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

function signInput(alg: string, input: string, key: KeyObject | string): string {
  if (alg.startsWith('HS'))
    return createHmac(`sha${alg.slice(2)}`, key as string)
      .update(input)
      .digest('base64url')
  const options = {
    key: key as KeyObject,
    dsaEncoding: 'ieee-p1363' as const,
    ...(alg.startsWith('PS') && {
      padding: constants.RSA_PKCS1_PSS_PADDING,
      saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
    }),
  }
  const digest = alg === 'EdDSA' ? null : `sha${alg.slice(2)}`
  return sign(digest, Buffer.from(input), options).toString('base64url')
}

/** A signed token of parts that may be anything: objects, or JSON text as it stands. */
export function token(header: unknown, claims: unknown, alg: string, key: KeyObject | string) {
  const input = `${encode(header)}.${encode(claims)}`
  return `${input}.${signInput(alg, input, key)}`
}

export function goodClaims(now = NOW) {
  const time = now / 1_000
  return { iss: ISSUER, aud: AUDIENCE, sub: 'machine-1', iat: time, exp: time + 300, scope: 'a b' }
}

type Key = ReturnType<typeof signingKey>

/** A good token of this key; `claims` and `header` change it. */
export function issue({ alg, kid, privateKey }: Key, claims: object = {}, header: object = {}) {
  return token(
    { alg, kid, typ: 'at+jwt', ...header },
    { ...goodClaims(), ...claims },
    alg,
    privateKey,
  )
}

export const PORTAL = 'https://auth.example.com/portals/main'
export const ORIGIN = 'https://app.example.com'

export function assertionClaims(now = NOW) {
  const time = now / 1_000
  return {
    ...{ iss: PORTAL, aud: ORIGIN, sub: '42', iat: time, exp: time + 60, sid: 'x1' },
    ...{ method: 'session', provider: 'corp', name: 'Ada Lovelace', email: 'ada@example.com' },
    ...{ email_verified: true, groups: ['staff', 'ops'], acr: 'mfa', auth_time: time - 600 },
  }
}

/** A good assertion of this key, as the portal makes it; `claims` and `header` change it. */
export function assertion({ alg, kid, privateKey }: Key, claims: object = {}, header: object = {}) {
  const type = 'gatehouse-assertion+jwt'
  const all = { ...assertionClaims(), ...claims }
  return token({ alg, typ: type, kid, ...header }, all, alg, privateKey)
}

/** An issuer without a socket: answers as it is set up, and counts. */
export function fakeIssuer({ issuer = ISSUER, keys = [] as unknown[] } = {}) {
  const jwksUrl = `${issuer.replace(/\/$/, '')}/keys`
  const state = {
    keys,
    metadata: { issuer, jwks_uri: jwksUrl } as unknown,
    isDown: false,
    requests: [] as { url: string; authorization: string | undefined }[],
    readings: () => state.requests.filter(({ url }) => url === jwksUrl).length,
    /** The body that it answers a request with. */
    answer(url: string, authorization?: string): string {
      state.requests.push({ url, authorization })
      if (state.isDown) throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
      return JSON.stringify(url === jwksUrl ? { keys: state.keys } : state.metadata)
    },
  }
  const dispatcher = dispatcherOf((url, authorization) => state.answer(url, authorization))
  return Object.assign(state, { issuer, dispatcher })
}

const controller: Dispatcher.DispatchController = {
  aborted: false,
  paused: false,
  reason: null,
  abort() {},
  pause() {},
  resume() {},
}

/** Answers requests without a socket. */
export function dispatcherOf(
  answer: (url: string, authorization: string | undefined) => string,
): Dispatcher {
  async function respond(
    { origin, path, headers }: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ) {
    try {
      const authorization = new Headers(headers as Record<string, string>).get('authorization')
      handler.onRequestStart?.(controller, {})
      const body = answer(`${origin}${path}`, authorization ?? undefined)
      handler.onResponseStart?.(controller, 200, {}, 'OK')
      handler.onResponseData?.(controller, Buffer.from(body))
      handler.onResponseEnd?.(controller, {})
    } catch (error) {
      handler.onResponseError?.(controller, error as Error)
    }
  }
  return Object.assign(new Dispatcher(), {
    dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
      void Promise.resolve().then(() => respond(options, handler))
      return true
    },
  })
}

/** Several issuers behind one dispatcher. */
function together(...issuers: ReturnType<typeof fakeIssuer>[]): Dispatcher {
  return dispatcherOf((url, authorization) =>
    issuers.find(({ issuer }) => url.startsWith(issuer))!.answer(url, authorization),
  )
}

/** An app with the plugin, whose clock stands still; `lines` are those of its log. */
export async function startApp(
  t: Test,
  options: AuthPluginOptions,
  ...issuers: ReturnType<typeof fakeIssuer>[]
) {
  const clock = frozenClock()
  const lines: Record<string, unknown>[] = []
  const app = Fastify({
    logger: { stream: { write: (line) => void lines.push(JSON.parse(line)) } },
  })
  t.teardown(() => app.close())
  const { now, elapsed } = clock
  await app.register(auth, { ...options, now, elapsed, dispatcher: together(...issuers) })
  return { app, clock, lines }
}

/** What a function throws, or throws later. */
export async function caught(fn: () => unknown): Promise<unknown> {
  try {
    await fn()
    return undefined
  } catch (error) {
    return error
  }
}
