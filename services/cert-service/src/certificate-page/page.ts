import { hash } from 'node:crypto'
import { isIP } from 'node:net'
import type { AuditRecord, OrderRecord, Transition } from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import { attempt } from '@gatehouse/net'
import { buildChainPem, type Profile, parseCertificate } from '@gatehouse/pki'
import { type Language, type Page, writeDistance, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { type Done, doneNotice } from '../actions/done.ts'
import { type Action, actionLinks } from '../actions/page.ts'
import { fact, type Reader, section, tabTitle, who, wideFact } from '../pages/card.ts'
import {
  COPY_SCRIPT,
  CURL,
  copyButton,
  copyField,
  copyText,
  KEY_FILE,
  ROOT_FILE,
} from '../pages/copy.ts'
import { failure } from '../pages/failure.ts'
import { certificateHref, nameHref, orderHref, requestAgainHref } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { english, plain, say, type Text } from '../pages/say.ts'
import { issuerText, wayText } from '../pages/state.ts'
import { page } from '../pages/style.ts'
import { activity, history, transitions } from './history.ts'
import { servedPlaces } from './served.ts'
import { type Around, type Shown, statusNotice } from './status.ts'

interface NameView extends Reader, Pick<Around, 'order' | 'history' | 'now'> {
  /** The latest entries of the audit trail about the name; undefined for those who may not know. */
  readonly activity: readonly AuditRecord[] | undefined
  readonly actions: readonly Action[]
  readonly done: Done | undefined
}

const ONLY_LOOK =
  'With an API key, you can look but not change anything. To make changes, sign in through the portal, or use the API.'

export interface CertificateView extends NameView, Pick<Around, 'coverage' | 'lastSeen'> {
  readonly record: Shown
  /** DER of the root that the chain leads to, if this service has it. */
  readonly root: Uint8Array | undefined
  /** DER of the root of the embedded CA, which also signs the certificate of this service. */
  readonly ownRoot: Uint8Array | undefined
  readonly origin: string
  /** The history of the certificate; undefined for readers who may not know who did what. */
  readonly transitions: readonly Transition[] | undefined
  /** What servers serve under its names; undefined if nobody has looked. */
  readonly served: Parameters<typeof servedPlaces>[2] | undefined
}

/** Renders all about one certificate, what matters first. It never has a private key in it. */
export function certificatePage(view: CertificateView): Page {
  const { lang, record, actions, done } = view
  const [domain = ''] = record.names
  const target = { domain, profile: profileOf(record) }
  const hint = view.visitor && 'key' in view.visitor ? html`<p>${say(lang, ONLY_LOOK)}</p>` : ''
  return detailsPage(
    view,
    domain,
    html`
      ${done ? doneNotice(lang, done) : ''}
      ${statusNotice(record, view)}
      ${orderNotice(view)}
      <section class="card facts-card">
        ${facts(view)}
        ${actionLinks(lang, actions, target)}
        ${hint}
      </section>
      ${view.served ? section(say(lang, 'What is served'), servedPlaces(lang, record, view.served)) : ''}
      ${record.isCurrent ? section(say(lang, 'Use it'), commands(view)) : ''}
      ${view.transitions?.length ? section(say(lang, 'What happened to it'), transitions(lang, view.transitions)) : ''}
      ${pastOf(view, domain, record)}
      <details class="card facts-card">
        <summary><h2>${say(lang, 'Details, fingerprint and chain')}</h2></summary>
        ${details(view)}
        ${chain(view)}
      </details>`,
  )
}

function pastOf(
  { lang, history: past, activity: entries }: NameView,
  domain: string,
  shown?: Shown,
): SafeHtml {
  return html`
      ${section(say(lang, 'History of {domain}', { domain }), history(lang, past, shown))}
      ${entries ? section(say(lang, 'Recent activity'), activity(lang, entries)) : ''}`
}

/** The page of a name whose certificates are all out of service, or which never had one. */
export function nameWithoutCertificatePage(
  view: NameView & { readonly domain: string; readonly profile: Profile },
): Page {
  const { lang, domain, profile, actions, done, order, now } = view
  const more = order
    ? ''
    : html`<p>${say(lang, 'The next request for the name gets a new one.')}</p>`
  return detailsPage(
    view,
    domain,
    html`
      ${done ? doneNotice(lang, done) : ''}
      ${notice('past', say(lang, 'No certificate of this name is in service.'), more)}
      ${order ? orderState(lang, order, now, orderLink(lang, order)) : ''}
      ${actionLinks(lang, actions, { domain, profile })}
      ${pastOf(view, domain)}`,
  )
}

export function orderPage(
  view: Reader & {
    readonly order: OrderRecord
    readonly actions: readonly Action[]
    readonly now: number
  },
): Page {
  const { lang, order, actions, now } = view
  const [domain = ''] = order.names
  const target = { domain, profile: profileOf(order), order: order.id }
  const again = order.status === 'failed' ? requestAgainHref(order) : undefined
  const link = html`<a href="${nameHref(domain, profileOf(order))}">${say(lang, 'Certificates of {domain}', { domain })}</a>`
  return detailsPage(
    view,
    plain(lang, 'Order for {domain}', { domain }),
    html`
      ${orderState(lang, order, now)}
      <section class="card facts-card">
        <dl>
          ${namesFact(lang, order.names)}
          ${fact(say(lang, 'Started'), writeTime(lang, order.since))}
          ${fact(say(lang, 'Issuer'), issuerText(lang, order.issuer))}
          ${fact(say(lang, 'Key'), order.keyType)}
          ${fact(say(lang, 'Failures in a row'), String(order.failures))}
          ${wideFact(say(lang, 'Id'), html`<code>${order.id}</code>`)}
        </dl>
        ${actionLinks(lang, actions, target, again)}
      </section>`,
    link,
  )
}

function detailsPage(
  reader: Reader,
  title: string,
  body: SafeHtml,
  more: SafeHtml | '' = '',
): Page {
  const { lang } = reader
  return page({
    language: lang,
    script: COPY_SCRIPT,
    title: tabTitle(title),
    bar: who(reader),
    main: html`
      <div class="head">
        <div>
          <a href="/">${say(lang, 'Certificates')}</a>
          <h1>${title}</h1>
        </div>
      </div>
      ${body}
      ${more ? html`<footer>${more}</footer>` : ''}`,
  })
}

function orderNotice({ lang, order, record, now }: CertificateView): SafeHtml | '' {
  if (!order || order.status === 'done' || !record.isCurrent) return ''
  return orderState(lang, order, now, orderLink(lang, order))
}

const UNDER_WAY = 'Its step is {step}; it began {when}. Load the page again to see its progress.'

function orderLink(lang: Language, order: OrderRecord): SafeHtml {
  return html`<p><a href="${orderHref(order)}">${say(lang, 'The order')}</a></p>`
}

function orderState(lang: Language, order: OrderRecord, now: number, link: SafeHtml | '' = '') {
  if (order.status === 'failed') {
    const why = html`${failure(lang, order, now)}${link}`
    const issuer = issuerText(lang, order.issuer)
    return notice('bad', say(lang, 'The last order failed ({issuer}).', { issuer }), why)
  }
  if (order.status === 'pending') {
    const moments = { step: english(order.step), when: writeDistance(lang, order.since, now) }
    const progress = html`<p>${say(lang, UNDER_WAY, moments)}</p>${link}`
    return notice('busy', say(lang, 'An order is under way.'), progress)
  }
  const href = nameHref(order.names[0] ?? '', profileOf(order))
  const certificate = html`<p><a href="${href}">${say(lang, 'The certificate')}</a></p>`
  return notice('good', say(lang, 'The order is done.'), certificate)
}

/** The facts that people come for: how long it is served, when it renews, and who uses it. */
function facts({ lang, record, activity = [], now }: CertificateView): SafeHtml {
  const { names, notAfter, renewAt, explanationUrl, isCurrent } = record
  const moment = (time: number, more: SafeHtml | '' = '') =>
    html`<b>${writeDistance(lang, time, now)}</b> ${writeTime(lang, time)}${more}`
  const clientText = record.account ? html`, ${say(lang, 'by its ACME client')}` : ''
  const why = explanationUrl
    ? html` · ${say(lang, 'the CA explains it at {url}', { url: html`<code>${explanationUrl}</code>` })}`
    : ''
  const isRenewed = renewAt !== null && isCurrent
  const fetched = activity.filter(({ action }) => action === 'hand-out')
  const actors = new Set(fetched.map(({ actor }) => actor))
  const users = Array.from(actors, (actor) => html`<code>${actor}</code>`)
  return html`
    <dl class="main-facts">
      ${fact(say(lang, notAfter > now ? 'Expires' : 'Expired'), moment(notAfter))}
      ${fact(say(lang, 'Next renewal'), isRenewed ? moment(renewAt, html`${clientText}${why}`) : html`<b>${say(lang, 'none planned')}</b>`)}
      ${fact(say(lang, 'Last fetched'), moment(record.fetchedAt))}
      ${users.length > 0 ? fact(say(lang, 'Fetched by'), html`${users}`) : ''}
      ${namesFact(lang, names)}
    </dl>`
}

function namesFact(lang: Language, names: readonly string[]): SafeHtml {
  return wideFact(say(lang, 'Names'), [
    ...names.map((name) => html`<span>${name}</span> `),
    copyButton(lang, plain(lang, 'Names'), names.join('\n')),
  ])
}

/** The marks that identify it, in two forms: one to compare by eye, one to paste. */
function details({ lang, record }: CertificateView): SafeHtml {
  const { certificate, serialNumber, issuer, keyType, csr, notBefore } = record
  const sha256 = hash('sha256', certificate)
  return html`
    <dl>
      ${fact(say(lang, 'Valid from'), writeTime(lang, notBefore))}
      ${fact(say(lang, 'Requested by'), wayText(lang, record))}
      ${fact(say(lang, 'Issuer'), issuerText(lang, issuer))}
      ${fact(say(lang, 'Key'), csr ? say(lang, '{type}, held by the caller', { type: keyType }) : keyType)}
      ${fingerprintFact(sha256)}
    </dl>
    ${copyField(lang, 'SHA-256', sha256)}
    ${copyField(lang, plain(lang, 'Serial number'), serialNumber)}`
}

function fingerprintFact(hex: string): SafeHtml {
  const octets = hex.match(/../g) ?? []
  return wideFact('SHA-256', html`<code class="copy">${octets.join(':').toUpperCase()}</code>`)
}

function chain({ lang, record, root }: CertificateView): SafeHtml {
  const pem = buildChainPem(record.certificate, record.chain)
  const spki = root && parseCertificate(root).spki
  const isCross = (der: Uint8Array) =>
    attempt(() => spki && parseCertificate(der).spki.equals(spki)) === true
  return html`
    <ol class="chain">
      ${chainLink(lang, 'Certificate', record.certificate)}
      ${record.chain.map((der) => chainLink(lang, isCross(der) ? 'Cross certificate' : 'Issuing CA', der))}
      ${root ? chainLink(lang, 'Root', root) : ''}
    </ol>
    <div class="pages">
      <a class="button" href="${certificateHref(record, 'chain.pem')}">${say(lang, 'Chain (PEM)')}</a>
      <a class="button" href="${certificateHref(record, 'leaf.pem')}">${say(lang, 'Certificate alone (PEM)')}</a>
      ${root ? html`<a class="button" href="/ca/root.pem">${say(lang, 'Root (PEM)')}</a>` : ''}
    </div>
    <details>
      <summary>${say(lang, 'Chain as text')}</summary>
      ${copyText(lang, plain(lang, 'The certificate and its issuers in PEM'), pem)}
    </details>`
}

function chainLink(lang: Language, text: Text, der: Uint8Array): SafeHtml {
  const info = attempt(() => parseCertificate(der))
  const title = say(lang, text)
  if (!info) return html`<li><b>${title}</b><p>${say(lang, 'Its fields cannot be read.')}</p></li>`
  const { subject, issuer, notBefore, notAfter, fingerprint256 } = info
  return html`
    <li>
      <b>${title}</b>
      <dl>
        ${fact(say(lang, 'Subject'), oneLine(subject) || say(lang, 'none: see its names'))}
        ${fact(say(lang, 'Issuer'), oneLine(issuer))}
        ${fact(say(lang, 'Valid'), html`${writeTime(lang, notBefore)} – ${writeTime(lang, notAfter)}`)}
        ${fingerprintFact(fingerprint256)}
      </dl>
    </li>`
}

function oneLine(name: string): string {
  return name.split('\n').join(', ')
}

function commands({ lang, record, origin, ownRoot }: CertificateView): SafeHtml {
  const [domain = ''] = record.names
  const isOfClient = profileOf(record) === 'client'
  const names = record.names.map(quoted).join(' ')
  const key = record.csr ? ' --csr' : ` --key-type ${record.keyType}`
  const host = domain.includes(':') ? `[${domain}]` : domain
  const serverName = isIP(domain) ? '' : ` -servername '${domain}'`
  const connect = `openssl s_client -connect '${host}:443'${serverName} </dev/null`
  const files = `--ca ${ROOT_FILE} --key-file ${KEY_FILE}`
  const profile = isOfClient ? ' --profile client' : ''
  const query = isOfClient ? '?profile=client' : ''
  const path = `${encodeURIComponent(domain)}${query}`.replaceAll("'", '%27')
  const url = `${origin}/api/certificate/${path}`
  const texts: readonly [label: Text, command: string][] = [
    ['Once on each machine: the root, and an API key', setupOf(origin, ownRoot)],
    [
      'Fetch it into files, and keep it up to date',
      `gatehouse-certs get ${names}${key}${profile} --out /etc/tls --url ${origin} ${files} --watch`,
    ],
    ['Read it by the API', `${CURL} '${url}'`],
    [
      'See which certificate a server presents',
      `${connect} | openssl x509 -noout -serial -fingerprint -sha256`,
    ],
  ]
  // No server is called by a wildcard, or by a name of a client.
  const shown = isOfClient || domain.startsWith('*.') ? texts.slice(0, 3) : texts
  const options = html`<code>--ca</code>, <code>--cacert</code>`
  return html`
    ${shown.map(([label, command]) => copyText(lang, plain(lang, label), command))}
    <p>${say(lang, PUBLIC, { url: origin, options })}</p>`
}

const PUBLIC = 'If {url} has a certificate of a public CA, leave these options out: {options}.'

/** Commands that fetch the root and keep it only if it is the one of this page, and that read a key. */
function setupOf(origin: string, root: Uint8Array | undefined): string {
  const paste = `install -D -m 600 /dev/stdin ${KEY_FILE}   # paste an API key, then Ctrl-D`
  if (!root) return paste
  const sha256 = hash('sha256', root)
  const digest = `openssl x509 -in ${ROOT_FILE} -outform der | openssl dgst -sha256`
  return [
    `curl -fsSk --create-dirs '${origin}/ca/root.pem?only=${sha256}' -o ${ROOT_FILE}`,
    `${digest} | grep ${sha256} || rm ${ROOT_FILE}`,
    paste,
  ].join('\n')
}

/** Quotes a name for a shell: those of wildcards and of clients have characters that it would read. */
function quoted(name: string): string {
  return /^[\w.:@/-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`
}
