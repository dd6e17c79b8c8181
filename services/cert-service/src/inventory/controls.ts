import { html, type SafeHtml } from '@remix-run/html-template'
import { issuerText, STATE_NAMES } from '../pages/state.ts'
import { clock } from '../pages/time.ts'
import type { CertificateState, Position } from '../store/store.ts'
import { countOf, type Summary } from './chart.ts'
import { hrefOf, isRefreshed, MAX_SEARCH, ORDERS, type View } from './view.ts'

/** The pages before and after this one, as far as there are any. */
export interface Neighbours {
  readonly previous?: Position | undefined
  readonly next?: Position | undefined
}

const LABEL = 'Name, address, serial number or fingerprint'

/**
 * The search. On a page that refreshes itself it is a link to one that does not, where somebody can type
 * in peace.
 */
export function searchForm(view: View): SafeHtml {
  const { search = '', order, state, issuer, isStill } = view
  if (isRefreshed(view)) {
    const href = hrefOf({ ...view, search: '', place: undefined })
    return html`
      <search class="search">
        <a class="field" href="${href}"><strong>Search</strong> ${LABEL}</a>
      </search>`
  }
  const kept = Object.entries({ order, state, issuer, refresh: isStill && 'off' }).map(
    ([name, value]) =>
      !value || value === 'next' ? '' : html`<input type="hidden" name="${name}" value="${value}">`,
  )
  const focus = view.search === '' ? html` autofocus` : ''
  const all = hrefOf({ ...view, search: undefined, place: undefined })
  const reset = view.search === undefined ? '' : html`<a class="button" href="${all}">Show all</a>`
  return html`
    <form class="search" role="search" action="/">
      <input type="search" name="q" value="${search}" maxlength="${MAX_SEARCH}"
        aria-label="${LABEL}" placeholder="${LABEL}"${focus}>
      ${kept}
      <button>Find</button>
      ${reset}
    </form>`
}

/** Says when the page was made, and whether it stays so. */
export function freshness(view: View, now: number): SafeHtml {
  const made = html`As of ${clock(now)}`
  if (view.search !== undefined) return html`<p class="fresh">${made}</p>`
  const change = (isStill: boolean, text: string) =>
    html`<a href="${hrefOf({ ...view, isStill })}">${text}</a>`
  return isRefreshed(view)
    ? html`<p class="fresh">${made}. Refreshes every minute. ${change(true, 'Stop refreshing')}</p>`
    : html`<p class="fresh">${made}. ${change(false, 'Refresh every minute')}</p>`
}

/** The links that filter and order. Each keeps what the others say, and begins with the first page. */
export function filters(view: View, issuers: readonly string[], summary?: Summary): SafeHtml {
  const { state, issuer, order } = view
  const at = (changes: Partial<View>) => hrefOf({ ...view, place: undefined, ...changes })
  const states = Object.entries({ '': 'All', ...STATE_NAMES }).map(([name, text]) => {
    const count = summary && countOf(summary, (name || undefined) as CertificateState | undefined)
    return [name, count === undefined ? text : `${text} ${count}`]
  })
  const byState = choices<CertificateState>('State', state, Object.fromEntries(states), (chosen) =>
    // The most urgent first.
    at({ state: chosen, ...(chosen === 'failing' && { order: 'expiry' }) }),
  )
  const known = Object.fromEntries(issuers.map((name) => [name, issuerText(name)]))
  const byIssuer =
    issuers.length > 1 || issuer !== undefined
      ? choices('Issuer', issuer, { '': 'All', ...known }, (chosen) => at({ issuer: chosen }))
      : ''
  const orders = choices('Order', order, ORDERS, (chosen = 'next') => at({ order: chosen }))
  return html`<div class="filters">${byState}${byIssuer}${orders}</div>`
}

/** @param names - what each choice is called; with an empty text, what stands for none of the others */
function choices<T extends string>(
  label: string,
  chosen: T | undefined,
  names: Readonly<Partial<Record<T | '', string>>>,
  href: (choice: T | undefined) => string,
): SafeHtml {
  const links = (Object.entries(names) as [T | '', string][]).map(([choice, name]) => {
    const isChosen = choice === (chosen ?? '')
    const current = isChosen ? html` aria-current="true"` : ''
    return html`<li><a href="${href(choice === '' ? undefined : choice)}"${current}>${name}</a></li>`
  })
  return html`
    <nav class="choices" aria-label="${label}">
      <b aria-hidden="true">${label}</b>
      <ul>${links}</ul>
    </nav>`
}

export function pager(view: View, { previous, next }: Neighbours): SafeHtml | '' {
  if (!previous && !next) return ''
  const at = (position: Position, isBackwards: boolean) =>
    hrefOf({ ...view, place: { position, isBackwards } })
  const back = previous
    ? html`
      <a class="button" href="${hrefOf({ ...view, place: undefined })}">First page</a>
      <a class="button" href="${at(previous, true)}" rel="prev">Previous page</a>`
    : ''
  const on = next ? html`<a class="button" href="${at(next, false)}" rel="next">Next page</a>` : ''
  return html`<nav class="pages" aria-label="Pages">${back}${on}</nav>`
}
