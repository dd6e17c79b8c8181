import type { CertificateRecord, CertificateState, OrderRecord } from '@gatehouse/cert-store/port'
import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { tabTitle, type VisitorName, who } from './cards.ts'
import { chart, type Summary } from './chart.ts'
import { filters, freshness, type Neighbours, pager, searchForm } from './controls.ts'
import { failure } from './failure.ts'
import { certificateHref, orderHref } from './links.ts'
import { notice } from './notice.ts'
import { REQUEST_PATH } from './request.ts'
import type { Question } from './search.ts'
import { page } from './style.ts'
import { axis, bar, type Moments, type TimeLine, timeLineOf, whenFromNow } from './time.ts'
import { hrefOf, STATE_NAMES, type View } from './view.ts'

const TITLE = 'Certificates'

export interface Inventory {
  readonly visitor: VisitorName
  readonly view: View
  /** On the first page of all. */
  readonly summary?: Summary | undefined
  /** What was searched. */
  readonly answer?: Answer | undefined
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

interface Answer {
  readonly question: Question
  /** The certificate that is valid for the whole name that was asked for. */
  readonly covering?: CertificateRecord | undefined
}

/** A certificate with the latest order of its lineage, or a failed order that has none. */
interface Row {
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

/** The certificates that the caller may see. */
export function inventoryPage(shown: Inventory): Page {
  const { visitor, view, neighbours, issuers, summary, rows, failed, hasMoreFailed, now } = shown
  return page({
    title: tabTitle(TITLE),
    bar: who(visitor),
    main: html`<div class="head"><h1>${TITLE}</h1>${searchForm(view)}</div>
${failures(failed, hasMoreFailed, now)}
${summary ? chart(summary) : ''}
${filters(view, issuers, summary)}
${freshness(view, now)}
${answered(shown)}
${rows.length > 0 ? list(shown) : empty(shown)}
${pager(view, neighbours)}
<footer>${'person' in visitor ? html`<a href="${REQUEST_PATH}">Request a certificate</a>. ` : ''}Times are in UTC. The API is described at <a href="/docs">/docs</a>.</footer>`,
  })
}

function list({ rows, answer, now }: Inventory): SafeHtml {
  const records = rows.flatMap(({ record }) => record ?? [])
  const line = timeLineOf(records, now)
  const swatch = (picture: SafeHtml, text: string) =>
    html`<span><svg viewBox="0 0 16 12" aria-hidden="true">${picture}</svg>${text}</span>`
  const key = html`<span class="key">${swatch(html`<rect class="past" y="3" width="16" height="6" rx="3"/>`, 'used up')}${swatch(html`<rect class="left" y="3" width="16" height="6" rx="3"/>`, 'still valid')}${swatch(html`<circle cx="8" cy="6" r="4"/>`, 'renewal')}</span>`
  const legend = records.length > 0 ? html`<div class="legend muted">${key}${axis(line)}</div>` : ''
  return html`<div class="card list">${legend}
<ul>${rows.map((row) => listed(row, line, answer?.question))}</ul></div>`
}

/** Says whether a whole name that was asked for has a certificate, and what to do if not. */
function answered({ answer, origin, now }: Inventory): SafeHtml | '' {
  const name = answer?.question.name?.text
  if (name === undefined) return ''
  const { covering } = answer ?? {}
  if (!covering) {
    const form = `${REQUEST_PATH}?${new URLSearchParams({ domain: name })}`
    const more = html`<p><a href="${form}">Request one</a>, or use the API:</p>${requestByApi(origin, name)}`
    return notice(
      'warn',
      html`You can see no certificate that is valid for <strong>${name}</strong> now.`,
      more,
    )
  }
  const by = covering.names.includes(name) ? '' : html` by a wildcard`
  return notice(
    'good',
    html`<a href="${certificateHref(covering)}">A certificate</a> is valid for <strong>${name}</strong>${by}. It ends ${whenFromNow(covering.notAfter, now)}.`,
  )
}

function empty({ view, answer, neighbours, origin }: Inventory): SafeHtml | '' {
  const { search, state, issuer } = view
  if (neighbours.next || neighbours.previous)
    return html`<div class="card empty"><p>Nothing on this page is visible to you. Try the next or the previous page.</p></div>`
  if (answer?.question.name && !answer.covering) return ''
  if (search) return html`<div class="card empty"><p>${nothingFound(search, answer)}</p></div>`
  if (state || issuer !== undefined)
    return html`<div class="card empty"><p>No certificate is like this.</p></div>`
  return html`<div class="card empty"><h2>No certificates yet</h2><p>The first one is issued with the first request:</p>${requestByApi(origin, 'app.example.com')}</div>`
}

function nothingFound(search: string, answer: Inventory['answer']): SafeHtml {
  const { fingerprint, name, search: { serialNumber, part } = {} } = answer?.question ?? {}
  if (fingerprint) return html`No certificate in use has the SHA-256 fingerprint ${fingerprint}.`
  if (name) return html`No name contains “${name.text}”.`
  if (!serialNumber) return html`No name contains “${part ?? search}”.`
  const hint =
    serialNumber.length === 40 ? ' If this is a SHA-1 fingerprint, enter that of SHA-256.' : ''
  return part
    ? html`No name contains “${part}”, and no certificate in use has the serial number ${serialNumber}.${hint}`
    : html`No certificate in use has the serial number ${serialNumber}.${hint}`
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
  const more = html`<p><a href="${all}">All that fail</a>, the most urgent first</p>`
  return html`<section class="card failures"><h2>Needs attention</h2><ul>${items}</ul>${hasMore ? more : ''}</section>`
}

function listed({ record, order }: Row, line: TimeLine, question?: Question): SafeHtml {
  const state = record ? stateOf(record, order, line.now) : 'failing'
  const [first, ...others] = (record ?? order)?.names ?? []
  const count = others.length === 1 ? '+ 1 name' : `+ ${others.length} names`
  const more = [
    ...(others.length > 0 ? [count] : []),
    ...(record && question?.name && isByWildcard(record, question)
      ? [`covers ${question.name.text}`]
      : []),
  ]
  const cause = order?.lastError?.detail
  if (record && state === 'failing' && cause) more.push(cause)
  const href = record ? certificateHref(record) : order ? orderHref(order) : ''
  const picture = record
    ? bar(record, line)
    : html`<span class="cause">No certificate: ${cause}</span>`
  return html`<li class="${state}"><a class="row" href="${href}"><span class="name"><b>${first}</b>${more.length > 0 ? html`<small>${more.join(', ')}</small>` : ''}</span>${picture}<span class="state"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[state]}"/></svg><span>${record ? outlook(state, record, line.now) : nextTry(order?.nextTryAt, line.now)}</span></span></a></li>
`
}

function isByWildcard({ names }: CertificateRecord, { name, search }: Question): boolean {
  const { wildcard } = search
  return wildcard !== undefined && names.includes(wildcard) && !names.includes(name?.text ?? '')
}

function outlook(state: CertificateState, { renewAt, notAfter }: Moments, now: number): SafeHtml {
  const text = STATE_NAMES[state]
  if (state === 'due') return html`${text}`
  if (state === 'failing' || state === 'unrenewed')
    return html`${text}, ${notAfter <= now ? 'ended' : 'ends'} ${whenFromNow(notAfter, now)}`
  const at = state === 'renews' && renewAt !== null ? renewAt : notAfter
  return html`${text} ${whenFromNow(at, now)}`
}

function nextTry(at: number | null | undefined, now: number): SafeHtml {
  return at && at > now ? html`Failing, next try ${whenFromNow(at, now)}` : html`Failing`
}

export function stateOf(
  { notAfter, renewAt }: Moments,
  order: Pick<OrderRecord, 'status'> | undefined,
  now: number,
): CertificateState {
  if (order?.status === 'failed') return 'failing'
  if (notAfter <= now) return 'ended'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}
