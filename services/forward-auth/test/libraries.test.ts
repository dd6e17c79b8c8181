import fp from 'fastify-plugin'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import type * as App from '../src/app.ts'
import { portalOf, startApp, yamlOf } from './app.ts'
import { signIn, start, whoIs } from './portal/kit.ts'
import { SHAPES } from './shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'INTERNAL')

const YAML = yamlOf(portalOf('main'))
type Module = typeof App

/** The module that builds the service, with a stub in place of a library. */
const withStub = (t: Test, library: string, stub: unknown) =>
  t.mockImport<Module>('../src/app.ts', { [library]: { default: stub } })

/** Keeps the names of @fastify/jwt and does none of its work. */
const jwtStub = fp<{ namespace: string }>(async (app, { namespace }) => {
  const verify = async () => {
    throw new Error('a stub verifies nothing')
  }
  if (!app.hasDecorator('jwt')) app.decorate('jwt', {} as never)
  Object.assign(app.jwt, { [namespace]: { sign: () => 'a.b.c', decode: () => null, verify } })
})

/** Keeps the names of @fastify/cookie and does none of its work. */
const cookieStub = fp(async (app) => {
  app.decorateRequest('cookies', null as never)
  for (const name of ['setCookie', 'clearCookie', 'cookie'])
    app.decorateReply(name, function (this: unknown) {
      return this
    })
})

t.test('without @fastify/jwt nobody signs in, and no session passes a check', async (t) => {
  const whole = await startApp(t, YAML)
  const cookie = await whole.signIn('main')
  t.equal((await whole.check(SHAPES[0]!, { cookie })).statusCode, 200, 'with the library it passes')

  const { buildApp } = await withStub(t, '@fastify/jwt', jwtStub)
  const { check } = await startApp(t, YAML, undefined, { buildApp })
  t.equal((await check(SHAPES[0]!, { cookie })).statusCode, 401)
  const { visitor, corp } = await start(t, { buildApp })
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  t.ok(ada.jar.has('__Host-gatehouse.main'), 'it has what the stub signed')
  t.equal(await whoIs(ada), 401)
})

t.test('without @fastify/cookie nobody signs in', async (t) => {
  const { buildApp } = await withStub(t, '@fastify/cookie', cookieStub)
  const { visitor, corp } = await start(t, { buildApp })
  const ada = visitor()
  await signIn(ada, corp, 'ada').catch(() => {})
  t.notOk([...ada.jar.keys()].some((name) => name.startsWith('__Host-gatehouse')))
  t.equal(await whoIs(ada), 401)
})
