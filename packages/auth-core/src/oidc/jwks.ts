import type { Dispatcher } from 'undici'
import { AuthError } from '../errors.ts'

const MAX_KEYS = 64

/**
 * Reads a whole key set (RFC 7517 section 5) with get-jwks. By itself it hands out one key, forgets
 * the others, and keeps what was withdrawn. So each reading has a get-jwks of its own, which asks
 * through `read`, bounded as that is, and what was read then is the answer.
 *
 * @throws AuthError AUTH_ISSUER_INVALID; SyntaxError; what `read` throws
 */
export async function readJwks(read: () => Promise<Buffer>): Promise<readonly unknown[]> {
  // Slow to load, and not needed at start.
  const [{ default: buildGetJwks }, undici] = await Promise.all([
    import('get-jwks'),
    import('undici'),
  ])
  const answer = Promise.withResolvers<Buffer>()
  const fetchOptions: object = { dispatcher: dispatcherOf(undici, read, answer.resolve) }
  const { getJwk } = buildGetJwks({ fetchOptions })
  await getJwk({ domain: 'https://issuer.invalid', alg: '', kid: '' }).catch(() => {})

  const { keys } = Object(JSON.parse((await answer.promise).toString()))
  if (!Array.isArray(keys) || keys.length > MAX_KEYS)
    throw new AuthError('AUTH_ISSUER_INVALID', { detail: `no list of at most ${MAX_KEYS} keys` })
  return keys
}

const controller: Dispatcher.DispatchController = {
  aborted: false,
  paused: false,
  reason: null,
  abort() {},
  pause() {},
  resume() {},
}

/** The built-in fetch, which get-jwks uses, takes a dispatcher and no other transport. */
function dispatcherOf(
  { Dispatcher, Dispatcher1Wrapper }: typeof import('undici'),
  read: () => Promise<Buffer>,
  listen: (answer: Promise<Buffer>) => void,
): Dispatcher {
  function dispatch(_request: unknown, handler: Dispatcher.DispatchHandler): boolean {
    const answer = read()
    listen(answer)
    handler.onRequestStart?.(controller, {})
    answer.then(
      (body) => {
        handler.onResponseStart?.(controller, 200, {}, 'OK')
        handler.onResponseData?.(controller, body)
        handler.onResponseEnd?.(controller, {})
      },
      (error) => handler.onResponseError?.(controller, error),
    )
    return true
  }
  return new Dispatcher1Wrapper(Object.assign(new Dispatcher(), { dispatch }))
}
