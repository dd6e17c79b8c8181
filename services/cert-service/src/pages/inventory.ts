import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { CertificateRecord, CertificateState, OrderRecord } from '../store/store.ts'
import { issuerText } from './actions.ts'
import { tabTitle, type VisitorName, who } from './cards.ts'
import { filters, type Neighbours, pager, searchForm } from './controls.ts'
import { failure } from './failure.ts'
import { certificateHref, orderHref } from './links.ts'
import { page } from './style.ts'
import { axis, bar, type Moments, type TimeLine, timeLineOf, when, whenFromNow } from './time.ts'
import type { View } from './view.ts'

const TITLE = 'Certificates'

export interface Inventory {
  readonly visitor: VisitorName
  readonly view: View
  readonly rows: readonly Row[]
  /** Failed orders, on the first page. */
  readonly failed: readonly OrderRecord[]
  readonly hasMoreFailed: boolean
  readonly neighbours: Neighbours
  /** By name. */
  readonly issuers: readonly string[]
  readonly origin: string
  readonly now: number
}

/** A certificate, and the latest order of its lineage. */
interface Row {
  readonly record: CertificateRecord
  readonly order: OrderRecord | undefined
}

/** The states of a certificate, the worst last, with the path of an icon in a view box of 24 by 24. */
const STATES: Readonly<Record<CertificateState, Readonly<Record<'text' | 'icon', string>>>> = {
  renews: { text: 'Renews', icon: 'm5 12.5 4.5 4.5L19 7.5' },
  due: { text: 'Being renewed', icon: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5' },
  unrenewed: {
    text: 'Not renewed, ends',
    icon: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2',
  },
  failing: { text: 'Failing, ends', icon: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1' },
  ended: { text: 'Ended', icon: 'm6 6 12 12M18 6 6 18' },
}

/** The certificates that the caller may see. */
export function inventoryPage(shown: Inventory): Page {
  const { visitor, view, neighbours, issuers, rows, failed, hasMoreFailed, now } = shown
  return page({
    title: tabTitle(TITLE),
    bar: who(visitor),
    main: html`<div class="head"><h1>${TITLE}</h1>${searchForm(view)}</div>
${failures(failed, hasMoreFailed, now)}
${filters(view, issuers)}
${rows.length > 0 ? list(rows, now) : empty(shown)}
${pager(view, neighbours)}
<footer>Times are in UTC. The API is described at <a href="/docs">/docs</a>.</footer>`,
  })
}

function list(rows: readonly Row[], now: number): SafeHtml {
  const line = timeLineOf(
    rows.map(({ record }) => record),
    now,
  )
  const swatch = (picture: SafeHtml, text: string) =>
    html`<span><svg viewBox="0 0 16 12" aria-hidden="true">${picture}</svg>${text}</span>`
  const key = html`<span class="key">${swatch(html`<rect class="past" y="3" width="16" height="6" rx="3"/>`, 'used up')}${swatch(html`<rect class="left" y="3" width="16" height="6" rx="3"/>`, 'still valid')}${swatch(html`<circle cx="8" cy="6" r="4"/>`, 'renewal')}</span>`
  return html`<div class="card list"><div class="legend muted">${key}${axis(line)}</div>
<ul>${rows.map((row) => certificate(row, line))}</ul></div>`
}

function empty({ view, neighbours, origin }: Inventory): SafeHtml {
  const { search, state, issuer } = view
  if (neighbours.next || neighbours.previous)
    return html`<div class="card empty"><p>Nothing on this page is visible to you. Try the next or the previous page.</p></div>`
  if (search) return html`<div class="card empty"><p>No results for “${search}”.</p></div>`
  if (state || issuer !== undefined)
    return html`<div class="card empty"><p>No certificate is like this.</p></div>`
  const command = `curl --cacert root.pem ${origin}/api/certificate -H "Authorization: APIKey $KEY" --json '{"domain": "app.example.com"}'`
  return html`<div class="card empty"><h2>No certificates yet</h2><p>The first one is issued with the first request:</p><pre><code>${command}</code></pre></div>`
}

function failures(failed: readonly OrderRecord[], hasMore: boolean, now: number): SafeHtml | '' {
  if (failed.length === 0) return ''
  const items = failed.map(
    (order) =>
      html`<li><a href="${orderHref(order)}"><b>${order.names[0]}</b></a>${failure(order, now)}</li>`,
  )
  const more = html`<p>There are more failures. Search for a name to see them.</p>`
  return html`<section class="card failures"><h2>Needs attention</h2><ul>${items}</ul>${hasMore ? more : ''}</section>`
}

function certificate({ record, order }: Row, line: TimeLine): SafeHtml {
  const state = stateOf(record, order, line.now)
  const [first, ...others] = record.names
  const count = others.length === 1 ? '+ 1 name' : `+ ${others.length} names`
  return html`<li class="${state}"><details><summary class="row"><span class="name"><b>${first}</b>${others.length > 0 ? html`<small>${count}</small>` : ''}</span>${bar(record, line)}<span class="state"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${STATES[state].icon}"/></svg><span>${outlook(state, record, line.now)}</span></span></summary>
<div class="facts">${order?.status === 'failed' ? html`<div>${failure(order, line.now)}</div>` : ''}${record.renewAt === null ? html`<p>It has not been fetched for two of its lifetimes and is no longer renewed. The next POST /api/certificate resumes that.</p>` : ''}${facts(record)}<p><a class="button" href="${certificateHref(record)}">Details</a></p></div></details></li>
`
}

function outlook(state: CertificateState, { renewAt, notAfter }: Moments, now: number): SafeHtml {
  const { text } = STATES[state]
  if (state === 'due') return html`${text}`
  const at = state === 'renews' && renewAt !== null ? renewAt : notAfter
  return html`${text} ${whenFromNow(at, now)}`
}

function facts(record: Row['record']): SafeHtml {
  const { names, issuer, serialNumber, keyType, csr, notBefore, notAfter, renewAt } = record
  return html`<dl>
<div class="wide"><dt>Names</dt><dd>${names.map((name) => html`<span>${name}</span> `)}</dd></div>
${fact('Valid from', when(notBefore))}${fact('Valid until', when(notAfter))}${fact('Renewal', renewAt === null ? 'none planned' : when(renewAt))}
${fact('Last fetched', when(record.fetchedAt))}${fact('Issuer', issuerText(issuer))}${fact('Key', csr ? `${keyType}, held by the caller` : keyType)}
<div class="wide"><dt>Serial number</dt><dd><code>${serialNumber}</code></dd></div>
</dl>`
}

function fact(label: string, value: SafeHtml | string): SafeHtml {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}

export function stateOf(
  { notAfter, renewAt }: Moments,
  order: Pick<OrderRecord, 'status'> | undefined,
  now: number,
): CertificateState {
  if (notAfter <= now) return 'ended'
  if (order?.status === 'failed') return 'failing'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}
