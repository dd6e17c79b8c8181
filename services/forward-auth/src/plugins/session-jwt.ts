import jwt, { type JWT } from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { SignToken } from '../session/token.ts'

declare module 'fastify' {
  interface FastifyInstance {
    signToken: SignToken
  }
}

const NAMESPACE = 'session'

/** The signer of @fastify/jwt as `app.signToken`. The key comes with each call, since keys change. */
export const sessionJwt = fp(
  async (app: FastifyInstance) => {
    const noKey = () => Promise.reject(new Error('a key must be given'))
    await app.register(jwt, { namespace: NAMESPACE, secret: noKey })
    const { [NAMESPACE]: session } = app.jwt as unknown as Record<typeof NAMESPACE, JWT>
    app.decorate('signToken', (claims, options) => session.sign(claims, options))
  },
  { fastify: '5.x', name: 'forward-auth/session-jwt' },
)
