import { prose } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import type { OrderRecord } from '../store/store.ts'
import { texts } from './texts.ts'
import { whenFromNow } from './words.ts'

/** What cannot be issued or renewed, why, and what to do; nothing where all is well. */
export function failures(
  failed: readonly OrderRecord[],
  { now, hasMore }: { readonly now: number; readonly hasMore: boolean },
): SafeHtml {
  if (failed.length === 0) return html``
  const { title, more } = texts.failures
  const items = failed.map((order) => html`<li><b>${order.names[0]}</b>${failure(order, now)}</li>`)
  const rest = hasMore ? html`<p>${more}</p>` : ''
  return html`<section class="card failures"><h2>${title}</h2><ul>${items}</ul>${rest}</section>`
}

/** Why a try failed, what to do, and when the next one is. */
export function failure({ lastError, nextTryAt }: OrderRecord, now: number): SafeHtml {
  const { failed, unknown, next, earliest, whenAsked } = texts.failures
  const action = (lastError && actionFor(lastError.code)) ?? unknown
  const isLater = nextTryAt !== null && nextTryAt > now
  const soonest = isLater ? html`${whenFromNow(nextTryAt, now)} ${earliest}` : whenAsked
  return html`<p class="cause">${failed}: ${lastError?.detail}</p><p>${prose(action)}</p><p>${next}: ${soonest}.</p>`
}
