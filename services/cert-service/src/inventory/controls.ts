import { type Language, writeClock } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { plain, say } from '../pages/say.ts'
import { FILTER_NAMES, type Filter, issuerText, shape } from '../pages/state.ts'
import { countOf, type Summary } from './chart.ts'
import { hrefOf, isRefreshed, MAX_SEARCH, ORDERS, type View } from './view.ts'

/** The places where the pages before and after this one begin, as far as there are any. */
export interface Neighbours {
  readonly previous?: string | undefined
  readonly next?: string | undefined
}

/** Links to each state, with how many are in it. Each keeps what the form says, and begins with the first page. */
export function tiles(lang: Language, view: View, summary?: Summary): SafeHtml {
  const hrefFor = (state?: Filter) =>
    // The most urgent filter comes first.
    hrefOf({ ...view, place: undefined, state, ...(state === 'failing' && { order: 'expiry' }) })
  const tile = (state?: Filter) => {
    const isChosen = state === view.state
    const isCounted = state !== 'covered' && state !== 'unserved'
    const count = summary && isCounted ? countOf(lang, summary, state) : undefined
    const isNone = state === undefined || !isCounted || summary?.counts[state] === 0
    return html`
        <a class="tile ${isNone ? '' : state}" href="${hrefFor(state)}"${isChosen ? html` aria-current="true"` : ''}>
          ${count === undefined ? '' : html`<strong>${count} </strong>`}
          <span>${state ? shape(state) : ''}${say(lang, state ? FILTER_NAMES[state] : 'All')}</span>
        </a>`
  }
  const states = (Object.keys(FILTER_NAMES) as Filter[]).map(tile)
  const isCut = say(lang, 'Not all certificates were counted.')
  return html`
    <nav class="tiles" aria-label="${plain(lang, 'State')}">${tile()}${states}</nav>
    ${summary?.isPartial ? html`<p>${isCut}</p>` : ''}`
}

/** The search, the issuer and the order. It keeps the state. */
export function controls(lang: Language, view: View, issuers: readonly string[]): SafeHtml {
  const { search, state, issuer, order, isLive } = view
  const option = (value: string, text: string, chosen: string) =>
    html`<option value="${value}"${value === chosen ? html` selected` : ''}>${text}</option>`
  const names = [...new Set([...issuers, issuer ?? []].flat())]
  const issuerOptions = names.map((name) => option(name, issuerText(lang, name), issuer ?? ''))
  const byIssuer =
    names.length > 1 || issuer !== undefined
      ? html`
      <label>${say(lang, 'Issuer')}
        <select name="issuer">${option('', plain(lang, 'All'), issuer ?? '')}${issuerOptions}</select></label>`
      : ''
  const orders = Object.entries(ORDERS).map(([name, text]) =>
    option(name, plain(lang, text), order),
  )
  const kept = Object.entries({ state, refresh: isLive && 'on' }).map(([name, value]) =>
    value ? html`<input type="hidden" name="${name}" value="${value}">` : '',
  )
  const isChanged = search || issuer !== undefined || order !== 'next' || state !== undefined
  const reset = isChanged ? html`<a class="button" href="/">${say(lang, 'Show all')}</a>` : ''
  return html`
    <form class="controls" role="search" action="/">
      <label class="wanted">${say(lang, 'Name, address, serial number or fingerprint')}
        <input type="search" name="q" value="${search ?? ''}" maxlength="${MAX_SEARCH}"
          autocapitalize="none" spellcheck="false"></label>
      ${byIssuer}
      <label>${say(lang, 'Sort by')}
        <select name="order">${orders}</select></label>
      ${kept}
      <button>${say(lang, 'Find')}</button>
      ${reset}
    </form>`
}

/** Says when the page was made, and whether it stays so. */
export function freshness(lang: Language, view: View, now: number): SafeHtml {
  const made = say(lang, 'As of {time}.', { time: writeClock(lang, now) })
  if (view.search) return html`<p>${made}</p>`
  const isLive = isRefreshed(view)
  const href = hrefOf({ ...view, search: undefined, isLive: !isLive })
  const text = isLive ? 'Stop refreshing' : 'Refresh every minute'
  return html`<p>${made} <a href="${href}">${say(lang, text)}</a></p>`
}

export function pager(lang: Language, view: View, { previous, next }: Neighbours): SafeHtml | '' {
  if (!previous && !next) return ''
  const hrefFor = (cursor: string, isBackwards: boolean) =>
    hrefOf({ ...view, place: { cursor, isBackwards } })
  const back = previous
    ? html`
      <a class="button" href="${hrefOf({ ...view, place: undefined })}">${say(lang, 'First page')}</a>
      <a class="button" href="${hrefFor(previous, true)}" rel="prev">${say(lang, 'Previous page')}</a>`
    : ''
  const on = next
    ? html`<a class="button" href="${hrefFor(next, false)}" rel="next">${say(lang, 'Next page')}</a>`
    : ''
  return html`<nav class="pages" aria-label="${plain(lang, 'Pages')}">${back}${on}</nav>`
}
