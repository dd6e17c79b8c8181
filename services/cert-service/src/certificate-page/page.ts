import { hash } from 'node:crypto'
import type {
  AuditRecord,
  CertificateRecord,
  InService,
  OrderRecord,
  PastCertificate,
} from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import { buildChainPem, type Profile, parseCertificate } from '@gatehouse/pki'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { type Done, doneNotice } from '../actions/done.ts'
import { type Action, actionLinks } from '../actions/page.ts'
import { fact, section, tabTitle, type VisitorName, who, wideFact } from '../pages/card.ts'
import { failure } from '../pages/failure.ts'
import { certificateHref, nameHref, orderHref, requestAgainHref } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { issuerText, wayText } from '../pages/state.ts'
import { page } from '../pages/style.ts'
import { axis, bar, timeLineOf, when, whenFromNow } from '../pages/time.ts'
import { activity, history } from './history.ts'
import { statusNotice } from './status.ts'

/** The page of a name. */
interface NameView {
  readonly visitor: VisitorName
  /** The latest order, of the lineage of the certificate if there is one. */
  readonly order: OrderRecord | undefined
  /** All certificates of its first name that the visitor may see, the newest first. */
  readonly history: readonly PastCertificate[]
  /** The latest entries of the audit trail about the name; undefined for those who may not know. */
  readonly activity: readonly AuditRecord[] | undefined
  /** The actions that the visitor may take on the certificates of the name. */
  readonly actions: readonly Action[]
  /** The last action of the visitor. */
  readonly done: Done | undefined
  readonly now: number
}

/** The page of a certificate. */
export interface CertificateView extends NameView {
  readonly record: CertificateRecord & InService
  /** DER of the root that the chain leads to, if this service has it. */
  readonly root: Uint8Array | undefined
  readonly origin: string
}

/** Renders all about one certificate. It never has a private key in it. */
export function certificatePage(view: CertificateView): Page {
  const { visitor, record, history: past, actions, done, now } = view
  const [domain = ''] = record.names
  const of = { domain, profile: profileOf(record) }
  const hint =
    'key' in visitor
      ? html`<p>With an API key, you can look but not change anything. To make changes, sign in through the portal, or use the API.</p>`
      : ''
  return detailsPage(
    visitor,
    domain,
    html`
      ${done ? doneNotice(done) : ''}
      ${statusNotice(record, view)}
      ${orderNotice(view)}
      ${section('Certificate', html`${validity(record, now)}${facts(view)}${actionLinks(actions, of)}${hint}`)}
      ${section('Fingerprint', fingerprints(record))}
      ${section('Chain', chain(view))}
      ${record.isCurrent ? section('Use it', commands(view)) : ''}
      ${section(`History of ${domain}`, history(past, record))}
      ${view.activity ? section('Recent activity', activity(view.activity)) : ''}`,
  )
}

/** The page of a name whose certificates are all out of service, or which never had one. */
export function nameWithoutCertificatePage(
  view: NameView & { readonly domain: string; readonly profile: Profile },
): Page {
  const { domain, visitor, history: past, actions, done, order, now } = view
  const more = order ? '' : html`<p>The next request for it gets a new one.</p>`
  return detailsPage(
    visitor,
    domain,
    html`
      ${done ? doneNotice(done) : ''}
      ${notice('past', 'No certificate of this name is in service.', more)}
      ${order ? orderState(order, now, orderLink(order)) : ''}
      ${actionLinks(actions, view)}
      ${section(`History of ${domain}`, history(past))}
      ${view.activity ? section('Recent activity', activity(view.activity)) : ''}`,
  )
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
  return detailsPage(
    visitor,
    `Order for ${domain}`,
    html`
      ${orderState(order, now)}
      ${section(
        'Order',
        html`
          <dl>
            ${namesFact(order.names)}
            ${fact('Begun', when(order.since))}
            ${fact('Issuer', issuerText(order.issuer))}
            ${fact('Key', order.keyType)}
            ${fact('Failures in a row', String(order.failures))}
            ${wideFact('Id', html`<code>${order.id}</code>`)}
          </dl>
          ${actions.includes('dry-run') ? orderActions(order) : ''}`,
      )}`,
    html` <a href="${nameHref(domain, profileOf(order))}">Certificates of ${domain}</a>`,
  )
}

function orderActions(order: OrderRecord): SafeHtml {
  const [domain = ''] = order.names
  const dryRun = nameHref(domain, profileOf(order), '/dry-run', { order: order.id })
  const again = order.status === 'failed' ? requestAgainHref(order) : undefined
  return html`
    <div class="pages">
      <a class="button" href="${dryRun}">Dry run</a>
      ${again ? html`<a class="button" href="${again}">Request it again</a>` : ''}
    </div>`
}

function detailsPage(
  visitor: VisitorName,
  title: string,
  body: SafeHtml,
  more: SafeHtml | '' = '',
): Page {
  return page({
    title: tabTitle(title),
    bar: who(visitor),
    main: html`
      <div class="head">
        <div>
          <a href="/">Certificates</a>
          <h1>${title}</h1>
        </div>
      </div>
      ${body}
      <footer>Times are in UTC.${more}</footer>`,
  })
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
      html`<p>It is ${order.step}, since ${whenFromNow(order.since, now)}. Load the page again to see its progress.</p>${link}`,
    )
  return notice(
    'good',
    'The order is done.',
    html`<p><a href="${nameHref(order.names[0] ?? '', profileOf(order))}">The certificate</a></p>`,
  )
}

function validity(record: CertificateRecord, now: number): SafeHtml {
  const line = timeLineOf([record], now)
  return html`<div class="validity">${axis(line)}${bar(record, line)}</div>`
}

function facts({ record, activity = [] }: CertificateView): SafeHtml {
  const { names, issuer, keyType, csr, notBefore, notAfter, renewAt, explanationUrl } = record
  const by = record.account ? ', by its ACME client' : ''
  const why = explanationUrl ? html` · the CA explains it at <code>${explanationUrl}</code>` : ''
  const renewal =
    renewAt === null || !record.isCurrent ? 'none planned' : html`${when(renewAt)}${by}${why}`
  const fetched = activity.find(
    (entry) => entry.action === 'hand-out' && entry.serialNumber === record.serialNumber,
  )
  const fetcher = fetched ? html` by <code>${fetched.actor}</code>` : ''
  return html`
    <dl>
      ${namesFact(names)}
      ${fact('Valid from', when(notBefore))}
      ${fact('Valid until', when(notAfter))}
      ${fact('Next renewal', renewal)}
      ${fact('Last fetched', html`${when(record.fetchedAt)}${fetcher}`)}
      ${fact('Asked for by', wayText(record))}
      ${fact('Issuer', issuerText(issuer))}
      ${fact('Key', csr ? `${keyType}, held by the caller` : keyType)}
    </dl>`
}

function namesFact(names: readonly string[]): SafeHtml {
  return wideFact(
    'Names',
    names.map((name) => html`<span>${name}</span> `),
  )
}

/** Both forms of what identifies it: one to compare by eye, one to paste. */
function fingerprints({ certificate, serialNumber }: CertificateRecord): SafeHtml {
  const plain = hash('sha256', certificate)
  return html`
    <dl>${fingerprintFact(plain)}</dl>
    ${copyField('SHA-256, to copy', plain)}
    ${copyField('Serial number, to copy', serialNumber)}`
}

function fingerprintFact(hex: string): SafeHtml {
  return wideFact('SHA-256', html`<code class="copy">${colons(hex)}</code>`)
}

function colons(hex: string): string {
  return (hex.match(/../g) ?? []).join(':').toUpperCase()
}

/** A field that is selected as a whole when the keyboard enters it, without script. */
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
}

function chain({ record, root }: CertificateView): SafeHtml {
  const links: readonly Link[] = [
    { title: 'Certificate', der: record.certificate },
    ...record.chain.map((der) => ({ title: 'Issuing CA', der })),
    ...(root ? [{ title: 'Root', der: root }] : []),
  ]
  const pem = buildChainPem(record.certificate, record.chain)
  return html`
    <ol class="chain">${links.map(chainLink)}</ol>
    <div class="pages">
      <a class="button" href="${certificateHref(record, 'chain.pem')}">Chain (PEM)</a>
      <a class="button" href="${certificateHref(record, 'leaf.pem')}">Certificate alone (PEM)</a>
      ${root ? html`<a class="button" href="/ca/root.pem">Root (PEM)</a>` : ''}
    </div>
    <details>
      <summary>Chain as text</summary>
      ${copyText('The certificate and its issuers in PEM', pem)}
    </details>`
}

function chainLink({ title, der }: Link): SafeHtml {
  const info = parsed(der)
  if (!info) return html`<li><b>${title}</b><p>Its fields cannot be read.</p></li>`
  const { subject, issuer, notBefore, notAfter, fingerprint256 } = info
  return html`
    <li>
      <b>${title}</b>
      <dl>
        ${fact('Subject', oneLine(subject) || 'none: see its names')}
        ${fact('Issuer', oneLine(issuer))}
        ${fact('Valid', html`${when(notBefore)} to ${when(notAfter)}`)}
        ${fingerprintFact(fingerprint256)}
      </dl>
    </li>`
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
  const isOfClient = profileOf(record) === 'client'
  const names = record.names.map(quoted).join(' ')
  const key = record.csr ? ' --csr' : ` --key-type ${record.keyType}`
  const host = domain.includes(':') ? `[${domain}]` : domain
  const serverName = isIp(domain) ? '' : ` -servername '${domain}'`
  const connect = `openssl s_client -connect '${host}:443'${serverName} </dev/null`
  const cacert = root ? ' --cacert root.pem' : ''
  const profile = isOfClient ? ' --profile client' : ''
  const query = isOfClient ? '?profile=client' : ''
  const url = `${origin}/api/certificate/${encodeURIComponent(domain)}${query}`.replaceAll(
    "'",
    '%27',
  )
  const texts: readonly [label: string, command: string][] = [
    [
      'Fetch it into files, and keep it up to date',
      `gatehouse-certs get ${names}${key}${profile} --out /etc/tls --url ${origin} --watch`,
    ],
    ['Read it by the API', `curl${cacert} -H "Authorization: APIKey $KEY" '${url}'`],
    [
      'See which certificate a server presents',
      `${connect} | openssl x509 -noout -serial -fingerprint -sha256`,
    ],
  ]
  // No server is called by a wildcard, or by a name of a client.
  const shown = isOfClient || domain.startsWith('*.') ? texts.slice(0, 2) : texts
  return html`${shown.map(([label, command]) => copyText(label, command))}`
}

/** Quotes a name for a shell: those of wildcards and of clients have characters that it would read. */
function quoted(name: string): string {
  return /^[\w.:@/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`
}

function isIp(name: string): boolean {
  return name.includes(':') || /^[\d.]+$/.test(name)
}
