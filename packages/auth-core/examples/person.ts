// An app behind forward-auth, which knows by the signed assertion who opens it.
// PORTAL=https://auth.example.com/portals/main ORIGIN=https://app.example.com node examples/person.ts
import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'

export async function buildApp(portal: string, origin: string) {
  const app = Fastify()
  await app.register(auth, { assertion: { issuerUrl: portal, audience: origin } })
  app.get('/', { onRequest: app.requirePerson() }, ({ person }) => ({
    hello: person.name?.full ?? person.id,
    admin: person.groups?.includes('admins') ?? false,
  }))
  return app
}

if (process.argv[1] === import.meta.filename) {
  const { PORTAL: portal = '', ORIGIN: origin = '' } = process.env
  const app = await buildApp(portal, origin)
  await app.listen({ port: 3000 })
}
