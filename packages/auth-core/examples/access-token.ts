// Routes behind access tokens of an OpenID provider.
// ISSUER_URL=… node examples/access-token.ts
import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'

export async function buildApp(issuerUrl: string) {
  const app = Fastify()
  await app.register(auth, {
    jwt: { issuerUrl, audience: 'https://reports.example', requiredScopes: ['reports:read'] },
  })
  app.get('/reports', { onRequest: app.requireCaller() }, (request) => ({
    readBy: request.caller.subject,
  }))
  app.delete('/reports', { onRequest: app.requireCaller({ scopes: ['reports:write'] }) }, () => ({
    deleted: true,
  }))
  // The start does not wait for the issuer; this shows whether it answers.
  app.get('/readyz', () => app.callers.status())
  return app
}

if (process.argv[1] === import.meta.filename) {
  const app = await buildApp(process.env.ISSUER_URL ?? '')
  await app.listen({ port: 3000 })
}
