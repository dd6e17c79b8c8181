import { REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { card, toInventory } from '../pages/card.ts'
import { orderHref } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { IdSchema, NAME } from '../schemas.ts'
import { COOKIE_SCOPE } from '../visitors/visitors.ts'

const DONE = '__Host-gatehouse-certs-done'
/** The seconds in which it is shown, on the page that comes next. */
const MAX_AGE = 60

const Count = Type.Optional(Type.Integer({ minimum: 0 }))
/** An action that was taken on the certificates of a name. */
const DoneSchema = Type.Object({
  action: Type.Enum(['request', 'renew', 'revoke', 'delete']),
  domain: Type.String(NAME),
  /** The number of revoked ones. */
  count: Count,
  reason: Type.Optional(Type.Enum(Object.keys(REVOCATION_REASONS) as RevocationReason[])),
  /** The number of those that the CA does not know, so that they are revoked here alone. */
  unknownAtCa: Count,
  /** The number of replicas that have not confirmed it. */
  unconfirmed: Count,
  /** The order of a renewal that is still under way. */
  order: Type.Optional(IdSchema),
})
export type Done = Readonly<Static<typeof DoneSchema>>

/** Keeps what was done for the page that the browser is redirected to. */
export function keepDone(reply: FastifyReply, what: Done): void {
  const value = Buffer.from(JSON.stringify(what)).toString('base64url')
  reply.setCookie(DONE, value, { ...COOKIE_SCOPE, maxAge: MAX_AGE })
}

/** Reads what was just done to a name, once. */
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

function read(text: string): Done | undefined {
  try {
    const what: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return Check(DoneSchema, what) ? what : undefined
  } catch {
    return undefined
  }
}

/** Tells what was done. */
export function doneNotice(done: Done): SafeHtml {
  const { domain, unknownAtCa = 0, unconfirmed = 0 } = done
  const warnings = [
    unknownAtCa > 0 &&
      html`<p>The CA does not know ${unknownAtCa} of them, so they are revoked only here.</p>`,
    unconfirmed > 0 &&
      html`<p>${unconfirmed} replicas have not confirmed it yet, and may serve the old certificate until they reach the database.</p>`,
  ].filter((warning) => warning !== false)
  const tone = warnings.length > 0 ? 'warn' : done.order === undefined ? 'good' : 'busy'
  const more = html`${warnings}${underWay(done)}`
  return html`<div role="status">${notice(tone, `${domain}: ${said(done)}`, more)}</div>`
}

function said({ action, count = 0, reason = 'unspecified', order }: Done): string {
  if (action === 'request') return 'issued.'
  if (action === 'delete') return 'deleted. It is no longer answered or renewed.'
  if (action === 'revoke')
    return `revoked ${count === 1 ? 'one certificate' : `${count} certificates`} (${reason}).`
  return order === undefined ? 'renewed.' : 'the renewal has begun.'
}

function underWay({ order }: Done): SafeHtml | '' {
  return order === undefined
    ? ''
    : html`<p><a href="${orderHref({ id: order })}">See its progress</a></p>`
}

/** The page that tells what was done, for those who may do it but not see the certificate. */
export function donePage(done: Done): Page {
  return card('Done', html`${doneNotice(done)}${toInventory}`)
}
