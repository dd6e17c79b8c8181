import type { CertificateRecord, CertificateState, OrderRecord } from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { tabTitle, type VisitorName, who } from '../pages/card.ts'
import { failure } from '../pages/failure.ts'
import { certificateHref, orderHref, REQUEST_PATH } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { STATE_NAMES, stateOf } from '../pages/state.ts'
import { page } from '../pages/style.ts'
import { axis, bar, type TimeLine, timeLineOf, whenFromNow } from '../pages/time.ts'
import { chart, type Summary } from './chart.ts'
import { filters, freshness, type Neighbours, pager, searchForm } from './controls.ts'
import type { SearchQuery } from './search.ts'
import { hrefOf, type View } from './view.ts'

const TITLE = 'Certificates'

export interface Inventory {
  readonly visitor: VisitorName
  readonly view: View
  /** Counts, on the first page of all. */
  readonly summary?: Summary | undefined
  /** The search, if there was one. */
  readonly query?: SearchQuery | undefined
  /** The certificate that is valid for the whole name that was searched. */
  readonly covering?: CertificateRecord | undefined
  readonly rows: readonly ListedLineage[]
  /** Failed orders, on the first page. */
  readonly failed: readonly OrderRecord[]
  readonly hasMoreFailed: boolean
  readonly neighbours: Neighbours
  /** The names of all issuers. */
  readonly issuers: readonly string[]
  readonly origin: string
  readonly now: number
}

/** A certificate with the latest order of its lineage, or a failed order that has none. */
interface ListedLineage {
  readonly record?: CertificateRecord | undefined
  readonly order: OrderRecord | undefined
}

/** The path of an icon for each state, in a view box of 24 by 24. */
const ICONS: Readonly<Record<CertificateState, string>> = {
  renews: 'm5 12.5 4.5 4.5L19 7.5',
  due: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5',
  unrenewed: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2',
  failing: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1',
  ended: 'm6 6 12 12M18 6 6 18',
}

/** Renders the certificates that the visitor may see. */
export function inventoryPage(shown: Inventory): Page {
  const { visitor, view, neighbours, issuers, summary, rows, failed, hasMoreFailed, now } = shown
  const request =
    'person' in visitor ? html`<a href="${REQUEST_PATH}">Request a certificate</a>. ` : ''
  return page({
    title: tabTitle(TITLE),
    bar: who(visitor),
    main: html`
      <div class="head">
        <h1>${TITLE}</h1>
        ${searchForm(view)}
      </div>
      ${failures(failed, hasMoreFailed, now)}
      ${summary ? chart(summary) : ''}
      ${filters(view, issuers, summary)}
      ${freshness(view, now)}
      ${covered(shown)}
      ${rows.length > 0 ? list(shown) : empty(shown)}
      ${pager(view, neighbours)}
      <footer>${request}Times are in UTC. The API is described at <a href="/docs">/docs</a>.</footer>`,
  })
}

function list({ rows, query, now }: Inventory): SafeHtml {
  const records = rows.flatMap(({ record }) => record ?? [])
  const line = timeLineOf(records, now)
  return html`
    <div class="card list">
      ${records.length > 0 ? legend(line) : ''}
      <ul>${rows.map((row) => listed(row, line, query))}</ul>
    </div>`
}

function legend(line: TimeLine): SafeHtml {
  const swatch = (picture: SafeHtml, text: string) =>
    html`<span><svg viewBox="0 0 16 12" aria-hidden="true">${picture}</svg>${text}</span>`
  return html`
    <div class="legend muted">
      <span class="key">
        ${swatch(html`<rect class="past" y="3" width="16" height="6" rx="3"/>`, 'used up')}
        ${swatch(html`<rect class="left" y="3" width="16" height="6" rx="3"/>`, 'still valid')}
        ${swatch(html`<circle cx="8" cy="6" r="4"/>`, 'renewal')}
      </span>
      ${axis(line)}
    </div>`
}

/** Says whether a whole name that was searched has a certificate, and what to do if not. */
function covered({ query, covering, origin, now }: Inventory): SafeHtml | '' {
  const name = query?.name?.text
  if (name === undefined) return ''
  if (!covering) {
    const form = `${REQUEST_PATH}?${new URLSearchParams({ domain: name })}`
    return notice(
      'warn',
      html`You can see no certificate that is valid for <strong>${name}</strong> now.`,
      html`<p><a href="${form}">Request one</a>, or use the API:</p>${requestByApi(origin, name)}`,
    )
  }
  const by = covering.names.includes(name) ? '' : html` by a wildcard`
  const end = whenFromNow(covering.notAfter, now)
  const link = html`<a href="${certificateHref(covering)}">A certificate</a>`
  return notice('good', html`${link} is valid for <strong>${name}</strong>${by}. It ends ${end}.`)
}

function empty({ view, query, covering, neighbours, origin }: Inventory): SafeHtml | '' {
  const { search, state, issuer } = view
  if (neighbours.next || neighbours.previous)
    return emptyCard('Nothing on this page is visible to you. Try the next or the previous page.')
  if (query?.name && !covering) return ''
  if (search) return emptyCard(nothingFound(search, query))
  if (state || issuer !== undefined) return emptyCard('No certificate matches.')
  return html`
    <div class="card empty">
      <h2>No certificates yet</h2>
      <p>Request the first one:</p>
      ${requestByApi(origin, 'app.example.com')}
    </div>`
}

const emptyCard = (text: string) => html`<div class="card empty"><p>${text}</p></div>`

function nothingFound(search: string, query: SearchQuery | undefined): string {
  const { fingerprint, name, search: { serialNumber, part } = {} } = query ?? {}
  if (fingerprint) return `No certificate in use has the SHA-256 fingerprint ${fingerprint}.`
  if (name) return `No name contains “${name.text}”.`
  if (!serialNumber) return `No name contains “${part ?? search}”.`
  const hint =
    serialNumber.length === 40 ? ' If this is a SHA-1 fingerprint, enter that of SHA-256.' : ''
  return part
    ? `No name contains “${part}”, and no certificate in use has the serial number ${serialNumber}.${hint}`
    : `No certificate in use has the serial number ${serialNumber}.${hint}`
}

function requestByApi(origin: string, name: string): SafeHtml {
  const command = `curl --cacert root.pem ${origin}/api/certificate -H "Authorization: APIKey $KEY" --json '{"domain": "${name}"}'`
  return html`<pre><code>${command}</code></pre>`
}

function failures(failed: readonly OrderRecord[], hasMore: boolean, now: number): SafeHtml | '' {
  if (failed.length === 0) return ''
  const items = failed.map(
    (order) =>
      html`<li><a href="${orderHref(order)}"><b>${order.names[0]}</b></a>${failure(order, now)}</li>`,
  )
  const all = hrefOf({ order: 'expiry', state: 'failing' })
  const more = html`<p><a href="${all}">All failing names</a>, the most urgent first</p>`
  return html`
    <section class="card failures">
      <h2>Needs attention</h2>
      <ul>${items}</ul>
      ${hasMore ? more : ''}
    </section>`
}

function listed({ record, order }: ListedLineage, line: TimeLine, query?: SearchQuery): SafeHtml {
  const state = record ? stateOf(record, order, line.now) : 'failing'
  const [first, ...others] = (record ?? order)?.names ?? []
  const cause = order?.lastError?.detail
  const more = [
    others.length > 0 && `+ ${others.length} ${others.length === 1 ? 'name' : 'names'}`,
    record && query?.name && isByWildcard(record, query) && `covers ${query.name.text}`,
    record && state === 'failing' && cause,
    record && profileOf(record) === 'client' && 'for a client',
    record?.way === 'acme' && `ACME${record.client ? `: ${record.client}` : ''}`,
  ].filter(Boolean)
  const href = record ? certificateHref(record) : order ? orderHref(order) : ''
  return html`
    <li class="${state}">
      <a class="row" href="${href}">
        <span class="name">
          <b>${first}</b>
          ${more.length > 0 ? html`<small>${more.join(', ')}</small>` : ''}
        </span>
        ${record ? bar(record, line) : html`<span class="cause">No certificate: ${cause}</span>`}
        <span class="state">
          <svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[state]}"/></svg>
          <span>${record ? outlook(state, record, line.now) : nextTry(order?.nextTryAt, line.now)}</span>
        </span>
      </a>
    </li>`
}

function isByWildcard({ names }: CertificateRecord, { name, search }: SearchQuery): boolean {
  const { wildcard } = search
  return wildcard !== undefined && names.includes(wildcard) && !names.includes(name?.text ?? '')
}

function outlook(
  state: CertificateState,
  { renewAt, notAfter, account }: CertificateRecord,
  now: number,
): SafeHtml {
  const text = STATE_NAMES[state]
  if (state === 'due') return account ? html`Its client is late` : html`${text}`
  if (state === 'failing' || state === 'unrenewed')
    return html`${text}, ${notAfter <= now ? 'ended' : 'ends'} ${whenFromNow(notAfter, now)}`
  const at = state === 'renews' && renewAt !== null ? renewAt : notAfter
  return html`${text} ${whenFromNow(at, now)}`
}

function nextTry(at: number | null | undefined, now: number): SafeHtml {
  return at && at > now ? html`Failing, next try ${whenFromNow(at, now)}` : html`Failing`
}
