import { createFetch as boundedFetch } from '@gatehouse/net'
import { manualClock } from '@gatehouse/service-kit/testing'
import { AuthorizationResponseError } from 'openid-client'
import type { Test } from 'tap'
import { ProviderError } from '../src/errors.ts'
import { toProviderError } from '../src/failure.ts'
import { createProvider, type ProviderConfig } from '../src/kinds.ts'
import type { Provider, ProviderDeps, RedirectProvider } from '../src/provider.ts'
import { createBrowser } from './stand-ins/browser.ts'
import { REDIRECT_URI } from './stand-ins/openid-provider.ts'

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
  const signIn = () => provider.finish(callback, login)
  return { login, callback, signIn, finish: async () => (await signIn()).profile }
}

/** A whole login: the profile that comes of it. */
export async function signIn(provider: RedirectProvider, hint?: string) {
  return (await signInWhole(provider, hint)).profile
}

/** A whole login: all that comes of it. */
export async function signInWhole(provider: RedirectProvider, hint?: string) {
  return (await reachCallback(provider, hint)).signIn()
}

/** Code and cause of the ProviderError that a promise is rejected with. */
export async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => new Error('was fulfilled'),
    (reason) => reason,
  )
  if (!(error instanceof ProviderError)) throw error
  return `${error.code}: ${error.message}; ${(error.cause as Error | undefined)?.message}`
}

/** The words for the person, of what a provider says through the browser. */
export function wordsOf(error_description: string): string | undefined {
  const cause = new URLSearchParams({ error: 'access_denied', error_description })
  const refused = new AuthorizationResponseError('refused', { cause })
  return toProviderError('Corp', refused).members?.providerSays
}
