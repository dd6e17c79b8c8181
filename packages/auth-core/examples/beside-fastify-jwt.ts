// People have a session cookie (@fastify/jwt), machines a key: side by side in one app.
// API_KEY=… SESSION_SECRET=… node examples/beside-fastify-jwt.ts
import fastifyCookie from '@fastify/cookie'
import fastifyJwt from '@fastify/jwt'
import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'

export async function buildApp(secrets: { apiKey: string; sessionSecret: string }) {
  const app = Fastify()
  await app.register(fastifyCookie)
  await app.register(fastifyJwt, {
    secret: secrets.sessionSecret,
    cookie: { cookieName: 'session', signed: false },
  })
  await app.register(auth, { psk: { key: secrets.apiKey } })

  app.get('/me', { onRequest: (request) => request.jwtVerify() }, (request) => request.user)
  app.get('/metrics', { onRequest: app.requireCaller() }, (request) => ({
    for: request.caller.subject,
  }))
  return app
}

if (process.argv[1] === import.meta.filename) {
  const { API_KEY: apiKey = '', SESSION_SECRET: sessionSecret = '' } = process.env
  const app = await buildApp({ apiKey, sessionSecret })
  await app.listen({ port: 3000 })
}
