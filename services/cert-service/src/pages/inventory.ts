import { type Page, type Problem, prose } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import type { CertificateRecord, OrderRecord } from '../store/store.ts'
import { page } from './style.ts'
import { axis, bar, type Moments, type TimeLine, timeLineOf, when, whenFromNow } from './time.ts'

const TITLE = 'Certificates'

/** What people may do with a certificate, with what it means for those who use it. */
const ACTION_TEXTS = {
  renew: {
    verb: 'Renew',
    means: 'A new certificate is issued if this one is due. The old one stays valid until it ends.',
  },
  revoke: {
    verb: 'Revoke',
    means:
      'All certificates of this name go on the revocation list, and clients that look there refuse them at once. The next request for the name gets a new certificate and key.',
  },
  delete: {
    verb: 'Delete',
    means:
      'Certificates of this name are no longer answered or renewed. Copies stay valid until they end.',
  },
}
export type Action = keyof typeof ACTION_TEXTS
export const ACTIONS = Object.keys(ACTION_TEXTS) as readonly Action[]

export interface Inventory {
  /** A person, or the name of the key that was entered. */
  readonly visitor: { readonly person: string } | { readonly key: string }
  readonly search: string
  readonly rows: readonly Row[]
  /** Failed orders, on the first page. */
  readonly failed: readonly OrderRecord[]
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
  /** What the visitor may do with it. */
  readonly actions: readonly Action[]
}

/** The states of a certificate, the worst last, with the path of an icon in a view box of 24 by 24. */
const STATES = {
  renews: { text: 'Renews', icon: 'm5 12.5 4.5 4.5L19 7.5' },
  due: { text: 'Being renewed', icon: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5' },
  unrenewed: { text: 'Ends', icon: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2' },
  failing: { text: 'Not renewed, ends', icon: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1' },
  ended: { text: 'Ended', icon: 'm6 6 12 12M18 6 6 18' },
}
type State = keyof typeof STATES

/** The certificates that the caller may see, ordered by their next event. */
export function inventoryPage(shown: Inventory): Page {
  const { visitor, rows, failed, hasMoreFailed, now } = shown
  return page({
    title: tabTitle(TITLE),
    bar: who(visitor),
    main: html`<div class="head"><h1>${TITLE}</h1>${search(shown)}</div>
${failures(failed, hasMoreFailed, now)}
${rows.length > 0 ? list(rows, now) : empty(shown)}
${pager(shown)}
<footer>Times are in UTC. The API is described at <a href="/docs">/docs</a>.</footer>`,
  })
}

/** People sign out at the portal, keys here. */
function who(visitor: Inventory['visitor']): SafeHtml {
  if ('person' in visitor) return html`<span class="who muted">${visitor.person}</span>`
  return html`<form class="who" method="post" action="/sign-out"><span class="muted">Key ${visitor.key}</span><button>Sign out</button></form>`
}

function search({ search }: Inventory): SafeHtml {
  const label = 'Name or serial number'
  const reset = search ? html`<a class="button" href="/">Show all</a>` : ''
  return html`<form class="search" role="search" action="/"><input type="search" name="q" value="${search}" maxlength="253" aria-label="${label}" placeholder="${label}"><button>Find</button>${reset}</form>`
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

function empty({ search, nextHref, isFirst, origin }: Inventory): SafeHtml {
  if (nextHref)
    return html`<div class="card empty"><p>Nothing on this page is visible to you. Try the next page.</p></div>`
  if (search || !isFirst)
    return html`<div class="card empty"><p>No results for “${search}”.</p></div>`
  const command = `curl --cacert root.pem ${origin}/api/certificate -H "Authorization: APIKey $KEY" --json '{"domain": "app.example.com"}'`
  return html`<div class="card empty"><h2>No certificates yet</h2><p>The first one is issued with the first request:</p><pre><code>${command}</code></pre></div>`
}

function pager({ isFirst, nextHref, search }: Inventory): SafeHtml | '' {
  if (isFirst && !nextHref) return ''
  const start = search ? `/?${new URLSearchParams({ q: search })}` : '/'
  return html`<nav class="pages" aria-label="Pages">${isFirst ? '' : html`<a class="button" href="${start}">First page</a>`}${nextHref ? html`<a class="button" href="${nextHref}" rel="next">Next page</a>` : ''}</nav>`
}

function failures(failed: readonly OrderRecord[], hasMore: boolean, now: number): SafeHtml | '' {
  if (failed.length === 0) return ''
  const items = failed.map((order) => html`<li><b>${order.names[0]}</b>${failure(order, now)}</li>`)
  const more = html`<p>There are more failures. Search for a name to see them.</p>`
  return html`<section class="card failures"><h2>Needs attention</h2><ul>${items}</ul>${hasMore ? more : ''}</section>`
}

function failure({ lastError, nextTryAt }: OrderRecord, now: number): SafeHtml {
  const action = actionFor(lastError?.code ?? '') ?? 'The log of the service shows the cause.'
  const isLater = nextTryAt !== null && nextTryAt > now
  const next = isLater
    ? html`${whenFromNow(nextTryAt, now)} at the earliest`
    : 'with the next request for it'
  return html`<p class="cause">Last try failed: ${lastError?.detail}</p><p>${prose(action)}</p><p>Next try: ${next}.</p>`
}

function certificate({ record, order, actions }: Row, line: TimeLine): SafeHtml {
  const state = stateOf(record, order, line.now)
  const [first, ...others] = record.names
  const count = others.length === 1 ? '+ 1 name' : `+ ${others.length} names`
  return html`<li class="${state}"><details><summary class="row"><span class="name"><b>${first}</b>${others.length > 0 ? html`<small>${count}</small>` : ''}</span>${bar(record, line)}<span class="state"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${STATES[state].icon}"/></svg><span>${outlook(state, record, line.now)}</span></span></summary>
<div class="facts">${order?.status === 'failed' ? html`<div>${failure(order, line.now)}</div>` : ''}${record.renewAt === null ? html`<p>It has not been fetched for two of its lifetimes and is no longer renewed. The next POST /api/certificate resumes that.</p>` : ''}${facts(record)}${buttons(actions, first ?? '')}</div></details></li>
`
}

function buttons(actions: readonly Action[], domain: string): SafeHtml | '' {
  if (actions.length === 0) return ''
  const links = actions.map(
    (action) =>
      html`<a class="button" href="/confirm?${`${new URLSearchParams({ action, domain })}`}">${ACTION_TEXTS[action].verb}</a>`,
  )
  return html`<div class="pages">${links}</div>`
}

/** Asks before something is done to the certificates of a name. */
export function confirmPage(action: Action, domain: string): Page {
  const { verb, means } = ACTION_TEXTS[action]
  return card(
    `${verb} ${domain}?`,
    html`<p>${means}</p>
<form method="post" action="/confirm"><input type="hidden" name="action" value="${action}"><input type="hidden" name="domain" value="${domain}"><button class="main">${verb}</button></form>
<p><a href="/">Back to the certificates</a></p>`,
  )
}

function outlook(state: State, { renewAt, notAfter }: Moments, now: number): SafeHtml {
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
${fact('Last fetched', when(record.fetchedAt))}${fact('Issuer', issuer === 'ca' ? 'the embedded CA' : issuer)}${fact('Key', csr ? `${keyType}, held by the caller` : keyType)}
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
): State {
  if (notAfter <= now) return 'ended'
  if (order?.status === 'failed') return 'failing'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}

export function signInPage({ isWrong }: { readonly isWrong: boolean }): Page {
  const note = isWrong
    ? html`<p class="wrong" id="wrong" role="alert">That API key is not valid.</p>`
    : ''
  const described = isWrong ? html` aria-invalid="true" aria-describedby="wrong"` : ''
  return card(
    TITLE,
    html`<p>Enter an API key to see the certificates that it may read. Nothing can be changed here.</p>
<form method="post" action="/"><label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false" maxlength="1024" required autofocus${described}>${note}
<button class="main">Show certificates</button></form>`,
  )
}

/** The page of a service without API keys. */
export function tokensOnlyPage(origin: string): Page {
  const command = `curl -H "Authorization: Bearer $TOKEN" ${origin}/api/certificates`
  return card(
    TITLE,
    html`<p>This service accepts access tokens only, which cannot be entered here. Use one on the command line:</p><pre><code>${command}</code></pre>`,
  )
}

export function problemPage({ title, detail, requestId }: Problem, action?: string): Page {
  return card(
    title,
    html`${detail ? html`<p>${detail}</p>` : ''}${action ? html`<p>${prose(action)}</p>` : ''}${requestId ? html`<p><code>${requestId}</code></p>` : ''}
<p><a href="/">Back to the certificates</a></p>`,
  )
}

function card(title: string, body: SafeHtml): Page {
  const main = html`<div class="card small"><h1>${title}</h1>${body}</div>`
  return page({ title: tabTitle(title), main })
}

function tabTitle(title: string): string {
  return `${title} · Gatehouse`
}
