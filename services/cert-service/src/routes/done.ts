import { REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import type { Done } from '../pages/actions.ts'
import { OrderIdSchema } from '../schemas.ts'
import { COOKIE_SCOPE } from './visitors.ts'

const DONE = '__Host-gatehouse-certs-done'
/** Seconds. It is shown on the page that comes next, and no later. */
const MAX_AGE = 60

const Count = Type.Optional(Type.Integer({ minimum: 0 }))
const DoneSchema = Type.Object({
  action: Type.Enum(['request', 'renew', 'revoke', 'delete']),
  domain: Type.String({ maxLength: 254 }),
  count: Count,
  reason: Type.Optional(Type.Enum(Object.keys(REVOCATION_REASONS) as RevocationReason[])),
  unknownAtCa: Count,
  unconfirmed: Count,
  order: Type.Optional(OrderIdSchema),
})

/** Keeps what was done for the page that the browser is redirected to. */
export function keepDone(reply: FastifyReply, what: Done): void {
  const value = Buffer.from(JSON.stringify(what)).toString('base64url')
  reply.setCookie(DONE, value, { ...COOKIE_SCOPE, maxAge: MAX_AGE })
}

/** What was just done to a name, once. */
export function takeDone(
  request: FastifyRequest,
  reply: FastifyReply,
  domain: string,
): Done | undefined {
  const text = request.cookies[DONE]
  if (text === undefined) return undefined
  reply.clearCookie(DONE, COOKIE_SCOPE)
  const what = read(text)
  return what?.domain === domain ? what : undefined
}

function read(text: string): Static<typeof DoneSchema> | undefined {
  try {
    const what: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return Check(DoneSchema, what) ? what : undefined
  } catch {
    return undefined
  }
}
