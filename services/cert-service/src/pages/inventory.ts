import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { CertificateRecord, OrderRecord } from '../store/store.ts'
import { certificate } from './certificate.ts'
import { failures } from './failures.ts'
import { page } from './style.ts'
import { texts } from './texts.ts'
import { axis, timeLineOf } from './timeline.ts'

/** What one page of the inventory shows. */
export interface Inventory {
  /** Name of the key that somebody signed in with. */
  readonly keyName: string
  /** What was searched for; empty: nothing. */
  readonly search: string
  readonly rows: readonly Row[]
  /** Failed orders, for the first page. */
  readonly failed: readonly OrderRecord[]
  /** Whether there are more of them. */
  readonly hasMoreFailed: boolean
  readonly isFirst: boolean
  /** Of the next page. */
  readonly nextHref?: string | undefined
  readonly origin: string
  readonly now: number
}

/** A certificate, and the latest order of its lineage. */
export interface Row {
  readonly record: CertificateRecord
  readonly order: OrderRecord | undefined
}

/** The certificates that somebody may see, in order of what comes next. */
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
