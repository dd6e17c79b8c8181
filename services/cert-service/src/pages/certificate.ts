import { hash } from 'node:crypto'
import type {
  AuditRecord,
  CertificateRecord,
  InService,
  OrderRecord,
  PastCertificate,
} from '@gatehouse/cert-store/port'
import { buildChainPem, parseCertificate } from '@gatehouse/pki'
import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { type Action, actionLinks, type Done, doneNotice, issuerText } from './actions.ts'
import { tabTitle, type VisitorName, who } from './cards.ts'
import { failure } from './failure.ts'
import { activity, history } from './history.ts'
import { certificateHref, nameHref, orderHref } from './links.ts'
import { notice } from './notice.ts'
import { requestAgainHref } from './request.ts'
import { statusNotice } from './status.ts'
import { page } from './style.ts'
import { axis, bar, timeLineOf, when, whenFromNow } from './time.ts'

export interface CertificateView {
  readonly visitor: VisitorName
  readonly record: CertificateRecord & InService
  /** The latest order of its lineage. */
  readonly order: OrderRecord | undefined
  /** All certificates of its first name that the visitor may see, the newest first. */
  readonly history: readonly PastCertificate[]
  /** What happened to the name lately; undefined for those who may not know. */
  readonly activity: readonly AuditRecord[] | undefined
  /** What the visitor may do with the certificates of the name. */
  readonly actions: readonly Action[]
  /** DER of the root that the chain leads to, if this service has it. */
  readonly root: Uint8Array | undefined
  /** What the visitor has just done. */
  readonly done: Done | undefined
  readonly origin: string
  readonly now: number
}

/** All about one certificate. It never has a private key in it. */
export function certificatePage(view: CertificateView): Page {
  const { visitor, record, history: past, actions, done, now } = view
  const [domain = ''] = record.names
  return page({
    title: tabTitle(domain),
    bar: who(visitor),
    main: html`${heading(domain)}
${done ? doneNotice(done) : ''}${statusNotice(record, view)}${orderNotice(view)}
<section class="card facts-card"><h2>Certificate</h2>${validity(record, now)}${facts(view)}${actionLinks(actions, domain)}${'key' in visitor ? html`<p>An API key that is entered here only looks on. People act behind the portal, programs by the API.</p>` : ''}</section>
<section class="card facts-card"><h2>Fingerprint</h2>${fingerprints(record)}</section>
<section class="card facts-card"><h2>Chain</h2>${chain(view)}</section>
${record.isCurrent ? html`<section class="card facts-card"><h2>Use it</h2>${commands(view)}</section>` : ''}
<section class="card facts-card"><h2>History of ${domain}</h2>${history(past, record)}</section>
${view.activity ? html`<section class="card facts-card"><h2>What happened lately</h2>${activity(view.activity)}</section>` : ''}
<footer>Times are in UTC.</footer>`,
  })
}

/** The page of a name whose certificates are all out of service, or which never had one. */
export function nameWithoutCertificatePage(
  view: Pick<
    CertificateView,
    'visitor' | 'order' | 'history' | 'activity' | 'actions' | 'done' | 'now'
  > & { readonly domain: string },
): Page {
  const { domain, visitor, history: past, actions, done, order, now } = view
  return page({
    title: tabTitle(domain),
    bar: who(visitor),
    main: html`${heading(domain)}
${done ? doneNotice(done) : ''}${notice('past', 'No certificate of this name is in service.', order ? '' : html`<p>The next request for it gets a new one.</p>`)}${order ? orderState(order, now, orderLink(order)) : ''}
${actionLinks(actions, domain)}
<section class="card facts-card"><h2>History of ${domain}</h2>${history(past)}</section>
${view.activity ? html`<section class="card facts-card"><h2>What happened lately</h2>${activity(view.activity)}</section>` : ''}
<footer>Times are in UTC.</footer>`,
  })
}

/** The page of an order, whether or not it has led to a certificate. */
export function orderPage(view: {
  readonly visitor: VisitorName
  readonly order: OrderRecord
  readonly actions: readonly Action[]
  readonly now: number
}): Page {
  const { visitor, order, actions, now } = view
  const [domain = ''] = order.names
  const again = order.status === 'failed' ? requestAgainHref(order) : undefined
  const dryRun = actions.includes('dry-run')
    ? html`<div class="pages"><a class="button" href="${nameHref(domain)}/dry-run?order=${encodeURIComponent(order.id)}">Dry run</a>${again ? html`<a class="button" href="${again}">Request it again</a>` : ''}</div>`
    : ''
  return page({
    title: tabTitle(`Order for ${domain}`),
    bar: who(visitor),
    main: html`${heading(domain, `Order for ${domain}`)}
${orderState(order, now)}
<section class="card facts-card"><h2>Order</h2><dl>${namesFact(order.names)}
${fact('Begun', when(order.since))}${fact('Issuer', issuerText(order.issuer))}${fact('Key', order.keyType)}${fact('Failures in a row', String(order.failures))}
<div class="wide"><dt>Id</dt><dd><code>${order.id}</code></dd></div></dl>${dryRun}</section>
<footer>Times are in UTC. <a href="${nameHref(domain)}">Certificates of ${domain}</a></footer>`,
  })
}

function heading(domain: string, title = domain): SafeHtml {
  return html`<div class="head"><div><a href="/">Certificates</a><h1>${title}</h1></div></div>`
}

function orderNotice({ order, record, now }: CertificateView): SafeHtml | '' {
  if (!order || order.status === 'done' || !record.isCurrent) return ''
  return orderState(order, now, orderLink(order))
}

function orderLink(order: OrderRecord): SafeHtml {
  return html`<p><a href="${orderHref(order)}">The order</a></p>`
}

function orderState(order: OrderRecord, now: number, link: SafeHtml | '' = ''): SafeHtml {
  if (order.status === 'failed')
    return notice('bad', 'The last order failed.', html`${failure(order, now)}${link}`)
  if (order.status === 'pending')
    return notice(
      'busy',
      'An order is under way.',
      html`<p>It is ${order.step}, since ${whenFromNow(order.since, now)}. Load the page again to see how far it is.</p>${link}`,
    )
  return notice(
    'good',
    'The order is done.',
    html`<p><a href="${nameHref(order.names[0] ?? '')}">The certificate</a></p>`,
  )
}

function validity(record: CertificateRecord, now: number): SafeHtml {
  const line = timeLineOf([record], now)
  return html`<div class="validity">${axis(line)}${bar(record, line)}</div>`
}

function facts({ record, activity = [] }: CertificateView): SafeHtml {
  const { names, issuer, keyType, csr, notBefore, notAfter, renewAt, explanationUrl } = record
  const renewal =
    renewAt === null || !record.isCurrent
      ? 'none planned'
      : html`${when(renewAt)}${explanationUrl ? html` · the CA explains it at <code>${explanationUrl}</code>` : ''}`
  const fetched = activity.find(
    (entry) => entry.action === 'hand-out' && entry.serialNumber === record.serialNumber,
  )
  const by = fetched ? html` by <code>${fetched.actor}</code>` : ''
  return html`<dl>${namesFact(names)}
${fact('Valid from', when(notBefore))}${fact('Valid until', when(notAfter))}${fact('Next renewal', renewal)}
${fact('Last fetched', html`${when(record.fetchedAt)}${by}`)}${fact('Issuer', issuerText(issuer))}${fact('Key', csr ? `${keyType}, held by the caller` : keyType)}</dl>`
}

function namesFact(names: readonly string[]): SafeHtml {
  return html`<div class="wide"><dt>Names</dt><dd>${names.map((name) => html`<span>${name}</span> `)}</dd></div>`
}

function fact(label: string, value: SafeHtml | string): SafeHtml {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}

/** Both forms of what identifies it: one to compare by eye, one to paste. */
function fingerprints({ certificate, serialNumber }: CertificateRecord): SafeHtml {
  const plain = hash('sha256', certificate)
  return html`<dl><div class="wide"><dt>SHA-256</dt><dd><code class="copy">${colons(plain)}</code></dd></div></dl>
${copyField('SHA-256, to copy', plain)}${copyField('Serial number, to copy', serialNumber)}`
}

function colons(hex: string): string {
  return (hex.match(/../g) ?? []).join(':').toUpperCase()
}

/** Without script: a field that is selected as a whole when the keyboard enters it. */
function copyField(label: string, value: string): SafeHtml {
  return html`<label class="copied">${label}<input readonly spellcheck="false" value="${value}"></label>`
}

function copyText(label: string, text: string): SafeHtml {
  const rows = text.trimEnd().split('\n').length
  return html`<label class="copied">${label}<textarea readonly spellcheck="false" rows="${rows}">
${text}</textarea></label>`
}

interface Link {
  readonly title: string
  readonly der: Uint8Array
  readonly href?: string
}

function chain({ record, root }: CertificateView): SafeHtml {
  const links: readonly Link[] = [
    { title: 'Certificate', der: record.certificate },
    ...record.chain.map((der) => ({ title: 'Issuing CA', der })),
    ...(root ? [{ title: 'Root', der: root, href: '/ca/root.pem' }] : []),
  ]
  const pem = buildChainPem(record.certificate, record.chain)
  const toRoot = root ? html`<a class="button" href="/ca/root.pem">Root (PEM)</a>` : ''
  return html`<ol class="chain">${links.map(chainLink)}</ol>
<div class="pages"><a class="button" href="${certificateHref(record, 'chain.pem')}">Chain (PEM)</a><a class="button" href="${certificateHref(record, 'leaf.pem')}">Certificate alone (PEM)</a>${toRoot}</div>
<details><summary>Chain as text</summary>${copyText('The certificate and its issuers in PEM', pem)}</details>`
}

function chainLink({ title, der }: Link): SafeHtml {
  const info = parsed(der)
  if (!info) return html`<li><b>${title}</b><p>Its fields cannot be read.</p></li>`
  const { subject, issuer, notBefore, notAfter, fingerprint256 } = info
  return html`<li><b>${title}</b><dl><div><dt>Subject</dt><dd>${oneLine(subject) || 'none: its names say whom it is for'}</dd></div><div><dt>Issuer</dt><dd>${oneLine(issuer)}</dd></div><div><dt>Valid</dt><dd>${when(notBefore)} to ${when(notAfter)}</dd></div><div class="wide"><dt>SHA-256</dt><dd><code class="copy">${colons(fingerprint256)}</code></dd></div></dl></li>`
}

function parsed(der: Uint8Array) {
  try {
    return parseCertificate(der)
  } catch {
    return undefined
  }
}

function oneLine(name: string): string {
  return name.split('\n').join(', ')
}

function commands({ record, origin, root }: CertificateView): SafeHtml {
  const [domain = ''] = record.names
  const names = record.names.map(quoted).join(' ')
  const key = record.csr ? ' --csr' : ` --key-type ${record.keyType}`
  const host = domain.includes(':') ? `[${domain}]` : domain
  const isServed = !domain.startsWith('*.')
  const cacert = root ? ' --cacert root.pem' : ''
  return html`${copyText('Fetch it into files, and keep it up to date', `gatehouse-certs get ${names}${key} --out /etc/tls --url ${origin} --watch`)}
${copyText('Read it by the API', `curl${cacert} -H "Authorization: APIKey $KEY" '${origin}/api/certificate/${encodeURIComponent(domain)}'`)}
${isServed ? copyText('See which certificate a server presents', `openssl s_client -connect '${host}:443'${isIp(domain) ? '' : ` -servername '${domain}'`} </dev/null | openssl x509 -noout -serial -fingerprint -sha256`) : ''}`
}

/** For a shell: only wildcards have a character that it would read. */
function quoted(name: string): string {
  return /^[\w.:-]+$/.test(name) ? name : `'${name}'`
}

function isIp(name: string): boolean {
  return name.includes(':') || /^[\d.]+$/.test(name)
}
