import fastifyAuth from '@fastify/auth'
import cookie from '@fastify/cookie'
import fastifyJwt from '@fastify/jwt'
import Fastify from 'fastify'
import t from 'tap'
import auth from '../src/index.ts'

const key = 'correct-horse-battery-staple'

for (const [order, isFirst] of [
  ['before', true],
  ['after', false],
] as const)
  t.test(`registers ${order} the official plugins, and takes none of their names`, async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    if (isFirst) await app.register(auth, { psk: { key } })
    await app.register(fastifyAuth)
    await app.register(cookie)
    await app.register(fastifyJwt, { secret: 'a secret of the host application' })
    if (!isFirst) await app.register(auth, { psk: { key } })
    await app.ready()
    t.type(app.auth, 'function', 'their combinator')
    t.strictSame(app.callers.methods(), ['psk'])
  })
