import { type Page, prose } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import type { CertificateRecord, OrderRecord } from '../store/store.ts'
import { page } from './style.ts'
import { texts } from './texts.ts'
import { axis, bar, type Moments, type TimeLine, timeLineOf, when, whenFromNow } from './time.ts'

/** What one page of the inventory shows. */
export interface Inventory {
  /** Name of the API key in use. */
  readonly keyName: string
  /** The search; may be empty. */
  readonly search: string
  readonly rows: readonly Row[]
  /** Failed orders, on the first page. */
  readonly failed: readonly OrderRecord[]
  /** Whether there are more failed orders. */
  readonly hasMoreFailed: boolean
  readonly isFirst: boolean
  readonly nextHref?: string | undefined
  readonly origin: string
  readonly now: number
}

/** A certificate, and the latest order of its lineage. */
interface Row {
  readonly record: CertificateRecord
  readonly order: OrderRecord | undefined
}

/** The state of a certificate, the worst last. */
type State = 'renews' | 'due' | 'unrenewed' | 'failing' | 'ended'

/** Paths in a view box of 24 by 24. */
const ICONS: Readonly<Record<State, string>> = {
  renews: 'm5 12.5 4.5 4.5L19 7.5',
  due: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5',
  unrenewed: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2',
  failing: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1',
  ended: 'm6 6 12 12M18 6 6 18',
}

/** The certificates that the caller may see, ordered by their next event. */
export function inventoryPage(shown: Inventory): Page {
  const { keyName, rows, now } = shown
  return page({
    title: texts.tab(texts.title),
    bar: html`<form class="who" method="post" action="/sign-out"><span class="muted">${texts.key} ${keyName}</span><button>${texts.signOut}</button></form>`,
    main: html`<div class="head"><h1>${texts.title}</h1>${search(shown)}</div>
${failures(shown.failed, { now, hasMore: shown.hasMoreFailed })}
${rows.length > 0 ? list(rows, now) : empty(shown)}
${pager(shown)}
<footer>${texts.footer} <a href="/docs">/docs</a>.</footer>`,
  })
}

function search({ search }: Inventory): SafeHtml {
  const { label, find, all } = texts.search
  const reset = search ? html`<a class="button" href="/">${all}</a>` : ''
  return html`<form class="search" role="search" action="/"><input type="search" name="q" value="${search}" maxlength="253" aria-label="${label}" placeholder="${label}"><button>${find}</button>${reset}</form>`
}

function list(rows: readonly Row[], now: number): SafeHtml {
  const line = timeLineOf(
    rows.map(({ record }) => record),
    now,
  )
  const { past, left, renewal } = texts.legend
  const swatch = (picture: SafeHtml, text: string) =>
    html`<span><svg viewBox="0 0 16 12" aria-hidden="true">${picture}</svg>${text}</span>`
  const key = html`<span class="key">${swatch(html`<rect class="past" y="3" width="16" height="6" rx="3"/>`, past)}${swatch(html`<rect class="left" y="3" width="16" height="6" rx="3"/>`, left)}${swatch(html`<circle cx="8" cy="6" r="4"/>`, renewal)}</span>`
  return html`<div class="card list"><div class="legend muted">${key}${axis(line)}</div>
<ul>${rows.map((row) => certificate(row, line))}</ul></div>`
}

function empty({ search, nextHref, isFirst, origin }: Inventory): SafeHtml {
  const { title, text, next, search: nothing } = texts.empty
  if (nextHref) return html`<div class="card empty"><p>${next}</p></div>`
  if (search || !isFirst) return html`<div class="card empty"><p>${nothing(search)}</p></div>`
  const command = `curl --cacert root.pem ${origin}/api/certificate -H "Authorization: APIKey $KEY" --json '{"domain": "app.example.com"}'`
  return html`<div class="card empty"><h2>${title}</h2><p>${text}</p><pre><code>${command}</code></pre></div>`
}

function pager({ isFirst, nextHref, search }: Inventory): SafeHtml {
  const { label, first, next } = texts.pages
  if (isFirst && !nextHref) return html``
  const start = search ? `/?${new URLSearchParams({ q: search })}` : '/'
  return html`<nav class="pages" aria-label="${label}">${isFirst ? '' : html`<a class="button" href="${start}">${first}</a>`}${nextHref ? html`<a class="button" href="${nextHref}" rel="next">${next}</a>` : ''}</nav>`
}

/** What cannot be issued or renewed, why, and what to do. */
function failures(
  failed: readonly OrderRecord[],
  { now, hasMore }: { readonly now: number; readonly hasMore: boolean },
): SafeHtml {
  if (failed.length === 0) return html``
  const { title, more } = texts.failures
  const items = failed.map((order) => html`<li><b>${order.names[0]}</b>${failure(order, now)}</li>`)
  const rest = hasMore ? html`<p>${more}</p>` : ''
  return html`<section class="card failures"><h2>${title}</h2><ul>${items}</ul>${rest}</section>`
}

/** Why the last try failed, what to do, and when the next one is. */
function failure({ lastError, nextTryAt }: OrderRecord, now: number): SafeHtml {
  const { failed, unknown, next, earliest, whenAsked } = texts.failures
  const action = (lastError && actionFor(lastError.code)) ?? unknown
  const isLater = nextTryAt !== null && nextTryAt > now
  const soonest = isLater ? html`${whenFromNow(nextTryAt, now)} ${earliest}` : whenAsked
  return html`<p class="cause">${failed}: ${lastError?.detail}</p><p>${prose(action)}</p><p>${next}: ${soonest}.</p>`
}

/** A row of the inventory; it opens to the details of the certificate. */
function certificate({ record, order }: Row, line: TimeLine): SafeHtml {
  const state = stateOf(record, order, line.now)
  const [first, ...others] = record.names
  const more = others.length > 0 ? html`<small>${texts.others(others.length)}</small>` : ''
  return html`<li class="${state}"><details><summary class="row"><span class="name"><b>${first}</b>${more}</span>${bar(record, line)}<span class="state"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[state]}"/></svg><span>${outlook(state, record, line.now)}</span></span></summary>
<div class="facts">${order?.status === 'failed' ? html`<div>${failure(order, line.now)}</div>` : ''}${record.renewAt === null ? html`<p>${texts.abandoned}</p>` : ''}${facts(record)}</div></details></li>
`
}

/** What happens next, and when. */
function outlook(state: State, record: Row['record'], now: number): SafeHtml {
  if (state === 'due') return html`${texts.state.due}`
  return html`${texts.state[state]} ${whenFromNow(momentOf(state, record), now)}`
}

function facts(record: Row['record']): SafeHtml {
  const { names, issuer, serialNumber, keyType, csr, notBefore, notAfter, renewAt } = record
  const label = texts.facts
  return html`<dl>
<div class="wide"><dt>${label.names}</dt><dd>${names.map((name) => html`<span>${name}</span> `)}</dd></div>
${fact(label.from, when(notBefore))}${fact(label.until, when(notAfter))}${fact(label.renewal, renewAt === null ? label.none : when(renewAt))}
${fact(label.fetched, when(record.fetchedAt))}${fact(label.issuer, issuer === 'ca' ? texts.embedded : issuer)}${fact(label.key, csr ? `${keyType}, ${texts.csr}` : keyType)}
<div class="wide"><dt>${label.serial}</dt><dd><code>${serialNumber}</code></dd></div>
</dl>`
}

function fact(label: string, value: SafeHtml | string): SafeHtml {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}

/** @param order - the latest order of the lineage */
export function stateOf(
  { notAfter, renewAt }: Moments,
  order: Pick<OrderRecord, 'status'> | undefined,
  now: number,
): State {
  if (notAfter <= now) return 'ended'
  if (order?.status === 'failed') return 'failing'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}

/** The moment that the text of a state names. */
function momentOf(state: State, { notAfter, renewAt }: Moments): number {
  return state === 'renews' ? (renewAt ?? notAfter) : notAfter
}
