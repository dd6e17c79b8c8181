import type { OrderRecord } from '@gatehouse/cert-store/port'
import { retryCommand } from '@gatehouse/issuance'
import { type Language, prose, writeDistance } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import { errorHref } from './links.ts'
import { english, say } from './say.ts'

/** Says why the last try of an order failed, what to do, when the next try is, and how to try now. */
export function failure(lang: Language, order: OrderRecord, now: number): SafeHtml {
  const { lastError, nextTryAt } = order
  const { code = 'INTERNAL', detail, at: time = now } = lastError ?? {}
  const action = actionFor(code) ?? 'The log of the service shows the cause.'
  const isLater = nextTryAt !== null && nextTryAt > now
  const next = isLater
    ? say(lang, 'Next try: {when} at the earliest.', { when: writeDistance(lang, nextTryAt, now) })
    : say(lang, 'Next try: with the next request for it; a renewal within a minute.')
  const command = html`<code>${retryCommand(order)}</code>`
  return html`
    <p class="cause">${say(lang, 'Last try failed {when}: {why}', { when: writeDistance(lang, time, now), why: english(detail) })}</p>
    <p>${english(prose(action))} <a href="${errorHref(code)}"><code>${code}</code></a></p>
    <p>${next} ${say(lang, 'To try now: {command}', { command })}</p>`
}
