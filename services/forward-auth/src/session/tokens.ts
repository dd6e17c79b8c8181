import jwt, { type JWT } from '@fastify/jwt'
import Fastify from 'fastify'
import type { Key, KeyRing } from './key-ring.ts'

/** Header `typ` of session tokens: nothing else that is signed passes for one. */
export const SESSION_TYPE = 'gatehouse-session+jwt'
const REQUIRED = ['iss', 'aud', 'sub', 'sid', 'iat', 'nbf', 'exp', 'gatehouse_provider']

/** @fastify/jwt for the tokens of each key, by its ID. */
export type SessionTokens = ReadonlyMap<string, JWT>

export async function createTokens({ all }: KeyRing): Promise<SessionTokens> {
  return new Map(await Promise.all(all.map(async (key) => [key.kid, await jwtOf(key)] as const)))
}

/**
 * With one fixed key, which the plugin prepares once instead of for each token. A reload changes the keys,
 * and a running app takes no other plugin, so each has an app of its own that serves nothing.
 */
async function jwtOf({ kid, secret }: Key): Promise<JWT> {
  const app = Fastify()
  await app.register(jwt, {
    secret,
    sign: { algorithm: 'HS256', kid, header: { alg: 'HS256', typ: SESSION_TYPE } },
    verify: {
      algorithms: ['HS256'],
      complete: true,
      checkTyp: SESSION_TYPE,
      requiredClaims: REQUIRED,
      // The times are compared with the clock of the service.
      ignoreExpiration: true,
      ignoreNotBefore: true,
    },
  })
  return app.jwt
}
