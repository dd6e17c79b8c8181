import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { deriveKeys } from '../keys/key-ring.ts'
import type { AuthStore } from '../store/auth-store.ts'
import { AssertionKeys } from './assertion-keys.ts'

/**
 * Derives the keys of sessions from the configured secrets, or from one that the store makes at the
 * first start; those of assertions always from the store.
 *
 * @throws FwaError FWA_KEY_UNUSABLE, STORE_UNAVAILABLE
 */
export async function loadKeys(
  configuredSecrets: readonly string[] | undefined,
  store: Pick<AuthStore, 'secret'>,
) {
  const secrets = configuredSecrets ?? [await store.secret('session')]
  const secret = await store.secret('assertion', deriveKeys(secrets, 'store'))
  return {
    session: deriveKeys(secrets, 'session'),
    login: deriveKeys(secrets, 'login'),
    record: deriveKeys(secrets, 'record'),
    assertion: new AssertionKeys(secret),
  }
}

/** The keys by purpose: a key for one purpose is of no use for the others. */
export type ServiceKeys = Readonly<Awaited<ReturnType<typeof loadKeys>>>

declare module 'fastify' {
  interface FastifyInstance {
    readonly keys: ServiceKeys
  }
}

export const keys = fp<Pick<ForwardAuthConfig, 'session'>>(
  async (app: FastifyInstance, config) => {
    await app.decorateReloaded('keys', config, ({ session }) =>
      loadKeys(
        session.keys?.map(({ secret }) => secret),
        app.authStore,
      ),
    )
  },
  { name: 'forward-auth/keys', dependencies: ['service-kit/reload', 'forward-auth/store'] },
)
