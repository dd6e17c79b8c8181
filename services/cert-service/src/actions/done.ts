import { parseJson } from '@gatehouse/net'
import type { Language, Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { FastifyReply } from 'fastify'
import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { card, type Reader, toInventory } from '../pages/card.ts'
import { orderHref } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { plain, say } from '../pages/say.ts'
import { REASON } from '../routes/withdraw.ts'
import { IdSchema, NAME } from '../schemas.ts'
import { COOKIE_SCOPE } from '../visitors/visitors.ts'

const DONE = '__Host-gatehouse-certs-done'
/** The seconds in which it is shown, on the page that comes next. */
const MAX_AGE = 60

const Count = Type.Optional(Type.Integer({ minimum: 0 }))
const DoneSchema = Type.Object({
  action: Type.Enum(['request', 'renew', 'ask', 'retry', 'revoke', 'delete']),
  domain: Type.String(NAME),
  /** The number of revoked ones. */
  count: Count,
  reason: REASON,
  unknownAtCa: Count,
  notRevoked: Count,
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
export function takeDone(reply: FastifyReply, domain: string): Done | undefined {
  const text = reply.request.cookies[DONE]
  if (text === undefined) return undefined
  reply.clearCookie(DONE, COOKIE_SCOPE)
  const what = parseJson(Buffer.from(text, 'base64url'))
  return Check(DoneSchema, what) && what.domain === domain ? what : undefined
}

const NOT_REVOKED =
  'Certificates that are still valid, as their CA has not revoked them: {count}. Revoke the name again.'
const UNCONFIRMED =
  'Replicas that have not confirmed it yet: {count}. They may serve the old certificate until they reach the database.'

export function doneNotice(lang: Language, done: Done): SafeHtml {
  const { domain, unknownAtCa = 0, notRevoked = 0, unconfirmed = 0 } = done
  const warnings = [
    unknownAtCa > 0 &&
      html`<p>${say(lang, 'The CA does not know {count} of them, so they are revoked only here.', { count: unknownAtCa })}</p>`,
    notRevoked > 0 && html`<p>${say(lang, NOT_REVOKED, { count: notRevoked })}</p>`,
    unconfirmed > 0 && html`<p>${say(lang, UNCONFIRMED, { count: unconfirmed })}</p>`,
  ].filter((warning) => warning !== false)
  const tone = warnings.length > 0 ? 'warn' : done.order === undefined ? 'good' : 'busy'
  const more = html`${warnings}${underWay(lang, done)}`
  return html`<div role="status">${notice(tone, html`${domain}: ${outcomeText(lang, done)}`, more)}</div>`
}

function outcomeText(
  lang: Language,
  { action, count = 0, reason: code = 'unspecified', order }: Done,
): SafeHtml {
  const reason = html`<code>${code}</code>`
  if (action === 'request') return say(lang, 'issued.')
  if (action === 'ask') return say(lang, 'its ACME client is asked to renew it.')
  if (action === 'retry') return say(lang, order === undefined ? 'issued.' : 'it is being tried.')
  if (action === 'delete') return say(lang, 'deleted. It is no longer answered or renewed.')
  if (action === 'revoke') {
    if (count === 1) return say(lang, 'revoked one certificate ({reason}).', { reason })
    return say(lang, 'revoked {count} certificates ({reason}).', { count, reason })
  }
  return say(lang, order === undefined ? 'renewed.' : 'the renewal has begun.')
}

function underWay(lang: Language, { order }: Done): SafeHtml | '' {
  return order === undefined
    ? ''
    : html`<p><a href="${orderHref({ id: order })}">${say(lang, 'See its progress')}</a></p>`
}

/** The page that tells what was done, for those who may do it but not see the certificate. */
export function donePage(reader: Reader, done: Done): Page {
  const { lang } = reader
  const body = html`${doneNotice(lang, done)}${toInventory(lang)}`
  return card(reader, plain(lang, 'Done'), body)
}
