import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { createLogins, type Logins } from './logins.ts'
import { createSignInRate, type SignInRate } from './sign-in-rate.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly logins: Logins
    readonly signInRate: SignInRate
  }
}

/** Decorates the app with the logins in progress, and the rate at which people may sign in. */
export const logins = fp(
  async (app: FastifyInstance) => {
    app.decorate('logins', createLogins({ keys: () => app.keys, clock: app.clock }))
    app.decorate(
      'signInRate',
      createSignInRate(() => app.clock.now()),
    )
  },
  {
    fastify: '5.x',
    name: 'forward-auth/logins',
    dependencies: ['forward-auth/keys', 'service-kit/clock'],
  },
)
