import type { OrderRecord } from '@gatehouse/cert-store/port'
import { prose } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import { errorHref } from './links.ts'
import { whenFromNow } from './time.ts'

/** Says why the last try of an order failed, what to do, and when the next try is. */
export function failure({ lastError, nextTryAt }: OrderRecord, now: number): SafeHtml {
  const { code = 'INTERNAL', detail } = lastError ?? {}
  const action = actionFor(code) ?? 'The log of the service shows the cause.'
  const isLater = nextTryAt !== null && nextTryAt > now
  const next = isLater
    ? html`${whenFromNow(nextTryAt, now)} at the earliest`
    : 'with the next request for it'
  return html`
    <p class="cause">Last try failed: ${detail}</p>
    <p>${prose(action)} <a href="${errorHref(code)}"><code>${code}</code></a></p>
    <p>Next try: ${next}.</p>`
}
