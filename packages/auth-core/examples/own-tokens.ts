// Tokens that the app made itself, and keeps in a table by their SHA-256.
// TOKEN=… node examples/own-tokens.ts
import { hash } from 'node:crypto'
import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'

/** A row of the table. */
interface Session {
  readonly user: string
  readonly scopes: readonly string[]
}

/** @param find - a query of knex, mongoose or drizzle for one row, or any other promise of it */
export async function buildApp(find: (sha256: string) => PromiseLike<Session | null | undefined>) {
  const app = Fastify()
  await app.register(auth, {
    bearer: {
      async verify(token) {
        const session = await find(hash('sha256', token))
        if (!session) return undefined
        const { user, scopes } = session
        return { method: 'jwt', issuer: 'https://notes.example', subject: user, scopes, claims: {} }
      },
    },
  })
  app.get('/notes', { onRequest: app.requireCaller({ scopes: ['notes:read'] }) }, (request) => ({
    notesOf: request.caller.subject,
  }))
  return app
}

if (process.argv[1] === import.meta.filename) {
  const sha256 = hash('sha256', process.env.TOKEN ?? '')
  const session = { user: 'ada', scopes: ['notes:read'] }
  const app = await buildApp(async (sent) => (sent === sha256 ? session : undefined))
  await app.listen({ port: 3000 })
}
