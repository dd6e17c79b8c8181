// One route for people with a session cookie and for machines, through @fastify/auth.
// API_KEY=… SESSION_SECRET=… node examples/any-of.ts
import fastifyAuth from '@fastify/auth'
import fastifyCookie from '@fastify/cookie'
import fastifyJwt from '@fastify/jwt'
import auth from '@gatehouse/auth-core'
import Fastify, { type FastifyRequest } from 'fastify'

export async function buildApp(secrets: { apiKey: string; sessionSecret: string }) {
  const app = Fastify()
  await app.register(fastifyCookie)
  await app.register(fastifyJwt, {
    secret: secrets.sessionSecret,
    cookie: { cookieName: 'session', signed: false },
  })
  await app.register(fastifyAuth)
  await app.register(auth, { psk: { key: secrets.apiKey } })

  const hasSession = (request: FastifyRequest) => request.jwtVerify({ onlyCookie: true })
  app.get('/files', { onRequest: app.auth([hasSession, app.requireCaller()]) }, (request) => ({
    for: request.optionalCaller?.subject ?? request.user,
  }))
  return app
}

if (process.argv[1] === import.meta.filename) {
  const { API_KEY: apiKey = '', SESSION_SECRET: sessionSecret = '' } = process.env
  const app = await buildApp({ apiKey, sessionSecret })
  await app.listen({ port: 3000 })
}
