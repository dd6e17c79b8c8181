import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, InjectOptions, RouteOptions } from 'fastify'
import type { Test } from 'tap'

const FORM = 'application/x-www-form-urlencoded'
const JOSE = 'application/jose+json'
/** Bodies that no route wants: the type, and the text. */
const ODD: readonly (readonly [type: string | undefined, payload: string | undefined])[] = [
  [undefined, undefined],
  [undefined, 'text'],
  ...[FORM, JOSE, 'application/json', 'text/plain', 'nonsense'].flatMap((type) =>
    [undefined, '', 'null', '"text"', '[]', '[null]', '7', '{}', '{"__proto__":null}'].map(
      (payload) => [type, payload] as const,
    ),
  ),
  [FORM, 'a=1&a=2'],
  [FORM, 'logout_token=a&logout_token=b'],
  [FORM, '%00=%ff&__proto__=a'],
  ['multipart/form-data; boundary=a', '--a--'],
]

/**
 * Sends odd bodies to each route of a service that takes one, as each of `senders`. Its log is watched already. Gives
 * the routes.
 */
export async function sendOddBodies(
  t: Test,
  start: () => Promise<FastifyInstance>,
  senders: readonly InjectOptions[],
  fill: (parameter: string) => string,
): Promise<readonly string[]> {
  const routes: RouteOptions[] = []
  const collect = (message: unknown) =>
    (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', (route) => {
      routes.push(route)
    })
  subscribe('fastify.initialization', collect)
  t.teardown(() => unsubscribe('fastify.initialization', collect))
  const app = await start()
  const taking = routes.flatMap(({ method, url }) =>
    [method]
      .flat()
      .filter((each) => each === 'POST' || each === 'PUT' || each === 'PATCH' || each === 'DELETE')
      .map((each) => ({ method: each, url })),
  )
  for (const { method, url } of taking)
    for (const sender of senders)
      for (const [type, payload] of ODD) {
        const answer = await app.inject({
          ...sender,
          method,
          url: url.replace(/:(\w+)|\*/g, (_, name = '*') => fill(name)),
          headers: { ...sender.headers, ...(type && { 'content-type': type }) },
          ...(payload !== undefined && { payload }),
        })
        const what = `${method} ${url} ${type}: ${payload} is answered with ${answer.statusCode}`
        if (answer.statusCode >= 500) t.fail(what, { body: answer.body })
      }
  return taking.map(({ method, url }) => `${method} ${url}`)
}
