import { createFetch as boundedFetch } from '@gatehouse/net'
import { manualClock } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { FwaError } from '../../src/errors.ts'
import { createProvider, type ProviderConfig } from '../../src/providers/index.ts'
import type { Provider, ProviderDeps, RedirectProvider } from '../../src/providers/provider.ts'
import { createBrowser } from '../stand-ins/browser.ts'
import { REDIRECT_URI } from '../stand-ins/openid-provider.ts'

/** What a provider needs, with a clock that stands still and a log that is kept. */
export function testDeps({ createFetch = boundedFetch }: Partial<ProviderDeps> = {}) {
  const clock = manualClock()
  const lines: { fields: Record<string, unknown>; message: string }[] = []
  const write = (fields: object, message: string) => lines.push({ fields: { ...fields }, message })
  return { createFetch, clock, log: { info: write, warn: write }, lines }
}

/** The provider of this configuration, closed with the test. */
export function open<T extends Provider = RedirectProvider>(
  t: Test,
  config: ProviderConfig,
  deps: ProviderDeps = testDeps(),
): T {
  const provider = createProvider(config, deps)
  t.teardown(() => provider.close())
  return provider as T
}

let count = 0
/** The secrets of one login. */
export function newLogin(redirectUri = REDIRECT_URI) {
  const random = () => `${++count}`.padStart(43, 'x')
  return { state: random(), nonce: random(), codeVerifier: random(), redirectUri }
}

/** Signs in at the provider as far as the callback. */
export async function reachCallback(provider: RedirectProvider, hint?: string) {
  const login = newLogin()
  const callback = await createBrowser().signIn(await provider.authorizationUrl(login), hint)
  return { login, callback, finish: () => provider.finish(callback, login) }
}

/** A whole login: the profile that comes of it. */
export async function signIn(provider: RedirectProvider, hint?: string) {
  return (await reachCallback(provider, hint)).finish()
}

/** Code and cause of the FwaError that a promise is rejected with. */
export async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => new Error('was fulfilled'),
    (reason) => reason,
  )
  if (!(error instanceof FwaError)) throw error
  return `${error.code}: ${error.message}; ${(error.cause as Error | undefined)?.message}`
}
