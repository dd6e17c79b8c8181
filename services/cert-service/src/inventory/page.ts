import type { CertificateRecord, CertificateState, OrderRecord } from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import { type Language, type Page, writeDistance, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { card, type NamedPerson, type Reader, tabTitle, who } from '../pages/card.ts'
import { COPY_SCRIPT, CURL, copyText } from '../pages/copy.ts'
import { certificateHref, orderHref, REQUEST_PATH } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { english, plain, say, type Text } from '../pages/say.ts'
import { issuerText, shape, stateOf } from '../pages/state.ts'
import { page } from '../pages/style.ts'
import { chart, type Summary } from './chart.ts'
import { controls, freshness, type Neighbours, pager, tiles } from './controls.ts'
import type { SearchQuery } from './search.ts'
import { hrefOf, type View } from './view.ts'

const DOCS = html`<a href="/docs">/docs</a>`

export interface Inventory extends Reader {
  readonly view: View
  /** Counts, on the first page of all. */
  readonly summary?: Summary | undefined
  readonly query?: SearchQuery | undefined
  /** The certificate that is valid for the whole name that was searched. */
  readonly covering?: CertificateRecord | undefined
  readonly rows: readonly ListedRow[]
  /** The most urgent of what fails, on the first page. */
  readonly failed: readonly ListedRow[]
  readonly hasMoreFailed: boolean
  readonly neighbours: Neighbours
  readonly issuers: readonly string[]
  readonly rights: Rights
  readonly origin: string
  readonly now: number
}

/** What the visitor may do, by rules alone: it tells nothing of what is stored. */
export interface Rights {
  /** The rules for names whose certificates the visitor may see. */
  readonly visibleNames: readonly string[]
  readonly mayRequest: boolean
  /** Whether the visitor may see, and request, certificates for the whole name that was searched. */
  readonly maySeeName: boolean
  readonly mayRequestName: boolean
}

/** A certificate with the latest order of its request key, or a failed order that has none. */
interface ListedRow {
  readonly record?: CertificateRecord | undefined
  readonly order: OrderRecord | undefined
  /** Whether a server has another one than the newest. */
  readonly isUnserved?: boolean
}

export function inventoryPage(shown: Inventory): Page {
  const { lang, view, neighbours, issuers, summary, rows, failed, rights, now } = shown
  const request =
    rights.mayRequest && isPerson(shown)
      ? html`<a class="button main" href="${REQUEST_PATH}">${say(lang, 'Request a certificate')}</a>`
      : ''
  const hasNothing = rows.length === 0 && failed.length === 0
  if (rights.visibleNames.length === 0) return closedPage(shown, request)
  const isNew = hasNothing && hrefOf({ ...view, order: 'next', isLive: false }) === '/'
  return page({
    language: lang,
    script: COPY_SCRIPT,
    title: tabTitle(plain(lang, 'Certificates')),
    bar: who(shown),
    main: html`
      <div class="head">
        <h1>${say(lang, 'Certificates')}</h1>
        ${request}
      </div>
      ${isNew ? '' : tiles(lang, view, summary)}
      ${summary ? chart(lang, summary) : ''}
      ${isNew ? '' : controls(lang, view, issuers)}
      ${covered(shown)}
      ${hasNothing ? empty(shown) : list(shown)}
      ${pager(lang, view, neighbours)}
      <footer>
        ${freshness(lang, view, now)}
        ${limits(shown)}
        <p>${say(lang, 'The API is described at {docs}.', { docs: DOCS })}</p>
      </footer>`,
  })
}

const isPerson = ({ visitor }: Reader) => visitor !== undefined && 'person' in visitor

/** The page for those who may see no certificate, whatever there is. It says whom to ask, and what to say. */
function closedPage(shown: Inventory, request: SafeHtml | ''): Page {
  const { lang, visitor } = shown
  const known = visitor && 'person' in visitor ? knownAs(lang, visitor) : ''
  const ask = say(lang, 'Ask whoever runs this service for a rule that lets you see some.')
  const title = plain(lang, 'You may not see any certificates')
  return card(shown, title, html`<p>${ask}</p>${known}${request}`)
}

function knownAs(lang: Language, { person, groups }: NamedPerson): SafeHtml {
  const names = html`<bdi>${groups.length > 0 ? groups.join(', ') : '–'}</bdi>`
  const identity = { name: html`<bdi>${person}</bdi>`, groups: names }
  return html`<p>${say(lang, 'It knows you as {name}, with these groups: {groups}', identity)}</p>`
}

const LIMITED = 'You see the certificates for {names}. For others, ask whoever runs this service.'
const MAX_NAMES = 5

/** Says of which names a visitor sees the certificates, if not of all. */
function limits({ lang, rights: { visibleNames } }: Inventory): SafeHtml | '' {
  if (visibleNames.includes('*')) return ''
  const more = visibleNames.length - MAX_NAMES
  const names = visibleNames.slice(0, MAX_NAMES).join(', ')
  const rest = more > 0 ? html` ${say(lang, '+ {count} more', { count: more })}` : ''
  return html`<p>${say(lang, LIMITED, { names: html`<b>${names}</b>${rest}` })}</p>`
}

function list({ lang, rows, query, failed, hasMoreFailed, now }: Inventory): SafeHtml {
  const row = (listedRow: ListedRow) => listed(lang, listedRow, now, query)
  const failingHref = hrefOf({ order: 'expiry', state: 'failing' })
  const heads: readonly Text[] = ['Name', 'State', 'Valid until']
  const more = html`<a href="${failingHref}">${say(lang, 'All failing')}</a>`
  const urgent =
    failed.length > 0
      ? html`
      <div class="urgent">
        <h2>${say(lang, 'Needs attention')}</h2>${hasMoreFailed ? more : ''}
      </div>
      <ul>${failed.map(row)}</ul>`
      : ''
  return html`
    <div class="card list">
      ${urgent}
      <p class="row heads">
        ${heads.map((text) => html`<span>${say(lang, text)}</span>`)}
      </p>
      <ul>${rows.map(row)}</ul>
    </div>`
}

/** Says whether a whole name that was searched has a certificate, and what to do if not. */
function covered(shown: Inventory): SafeHtml | '' {
  const { lang, query, covering, rights, now } = shown
  const text = query?.name?.text
  if (text === undefined) return ''
  const name = html`<strong>${text}</strong>`
  if (!covering) {
    const sentence = rights.maySeeName
      ? say(lang, 'You can see no certificate that is valid for {name} now.', { name })
      : say(lang, 'You may not see certificates for {name}. Ask whoever runs this service.', {
          name,
        })
    return notice('warn', sentence, rights.mayRequestName ? requestOf(shown, text) : '')
  }
  const end = { name, when: writeDistance(lang, covering.notAfter, now) }
  const sentence = covering.names.includes(text)
    ? say(lang, '{name} has a valid certificate. It expires {when}.', end)
    : say(lang, '{name} is covered by a wildcard. It expires {when}.', end)
  const link = html`<a href="${certificateHref(covering)}">${say(lang, 'The certificate')}</a>`
  return notice('good', sentence, html`<p>${link}</p>`)
}

function requestOf(shown: Inventory, name: string): SafeHtml {
  const { lang, origin } = shown
  const form = `${REQUEST_PATH}?${new URLSearchParams({ domain: name })}`
  const link = isPerson(shown) ? html`<p><a href="${form}">${say(lang, 'Request one')}</a></p>` : ''
  return html`${link}${requestByApi(lang, origin, name)}`
}

function empty(shown: Inventory): SafeHtml | '' {
  const { lang, view, query, covering, neighbours, rights, origin } = shown
  const { search, state, issuer } = view
  const cardOf = (text: Text) => emptyCard(say(lang, text))
  if (neighbours.next || neighbours.previous)
    return cardOf('Nothing on this page is visible to you. Try the next or the previous page.')
  if (query?.name && !covering) return ''
  if (search) return emptyCard(nothingFound(lang, search, query))
  if (state || issuer !== undefined) return cardOf('No certificate that you may see matches.')
  const isLimited = !rights.visibleNames.includes('*')
  return html`
    <div class="card empty">
      <h2>${say(lang, isLimited ? 'No certificates that you may see yet' : 'No certificates yet')}</h2>
      <p>${say(lang, 'The first request for a name gets a certificate, which the service then renews.')}</p>
      ${rights.mayRequest ? requestByApi(lang, origin, 'app.example.com') : ''}
    </div>`
}

const emptyCard = (text: SafeHtml) => html`<div class="card empty"><p>${text}</p></div>`

function nothingFound(lang: Language, search: string, query: SearchQuery | undefined): SafeHtml {
  const { fingerprint, name, search: { serialNumber: serial, part } = {} } = query ?? {}
  const bySha256 =
    'No certificate in use that you may see has the SHA-256 fingerprint {fingerprint}.'
  if (fingerprint) return say(lang, bySha256, { fingerprint })
  const text = name?.text ?? part ?? (serial ? undefined : search)
  const byName =
    text === undefined ? '' : say(lang, 'No name that you may see contains “{text}”.', { text })
  if (name || !serial) return html`${byName}`
  const bySerial = say(
    lang,
    'No certificate in use that you may see has the serial number {serial}.',
    { serial },
  )
  const hint =
    serial.length === 40 ? say(lang, 'If this is a SHA-1 fingerprint, enter that of SHA-256.') : ''
  return html`${byName} ${bySerial} ${hint}`
}

function requestByApi(lang: Language, origin: string, name: string): SafeHtml {
  const command = `${CURL} ${origin}/api/certificate --json '{"domain": "${name}"}'`
  return copyText(lang, plain(lang, 'Request it by the API'), command)
}

function listed(lang: Language, listedRow: ListedRow, now: number, query?: SearchQuery) {
  const { record, order, isUnserved } = listedRow
  const state = record ? stateOf(record, order, now) : 'failing'
  const [first, ...otherNames] = (record ?? order)?.names ?? []
  const cause = english(order?.lastError?.detail)
  const covers = record && query?.name && isByWildcard(record, query) ? query.name.text : ''
  const more = [
    otherNames.length > 0 && say(lang, '+ {count} more', { count: otherNames.length }),
    covers && say(lang, 'covers {name}', { name: covers }),
    isUnserved && say(lang, 'Not served'),
    !record && say(lang, 'No certificate: {cause}', { cause }),
    record && state === 'failing' && cause,
    record && profileOf(record) === 'client' && say(lang, 'for a client'),
    record?.way === 'acme' && `ACME${record.client ? `: ${record.client}` : ''}`,
  ].flatMap((text, i) => (text ? html`${i > 0 ? ' ' : ''}<span>${text}</span>` : []))
  const href = record ? certificateHref(record) : order ? orderHref(order) : ''
  const outcome = record ? outlook(lang, state, record, now) : nextTry(lang, order?.nextTryAt, now)
  return html`
    <li class="${state}">
      <a class="row" href="${href}">
        <span class="name">
          <b title="${first}">${first}</b>
          ${more.length > 0 ? html`<small>${more}</small>` : ''}
        </span>
        <span class="state">${shape(state)}<span>${outcome}</span></span>
        <span class="until muted">
          ${record ? writeTime(lang, record.notAfter) : ''}
          <small>${issuerText(lang, (record ?? order)?.issuer ?? '')}</small>
        </span>
      </a>
    </li>`
}

function isByWildcard({ names }: CertificateRecord, { name, search }: SearchQuery): boolean {
  const { wildcard } = search
  return wildcard !== undefined && names.includes(wildcard) && !names.includes(name?.text ?? '')
}

function outlook(
  lang: Language,
  state: CertificateState,
  { renewAt, notAfter, account }: CertificateRecord,
  now: number,
): SafeHtml {
  const whenOf = (moment: number) => ({ when: writeDistance(lang, moment, now) })
  switch (state) {
    case 'due':
      return say(lang, account ? 'Its client is late' : 'Being renewed')
    case 'failing': {
      const text = notAfter > now ? 'Failing, expires {when}' : 'Failing, expired {when}'
      return say(lang, text, whenOf(notAfter))
    }
    case 'unrenewed':
      return say(lang, 'Not renewed, expires {when}', whenOf(notAfter))
    case 'ended':
      return say(lang, 'Expired {when}', whenOf(notAfter))
    default:
      return say(lang, 'Renews {when}', whenOf(renewAt ?? notAfter))
  }
}

function nextTry(lang: Language, time: number | null | undefined, now: number): SafeHtml {
  return time && time > now
    ? say(lang, 'Failing, next try {when}', { when: writeDistance(lang, time, now) })
    : say(lang, 'Failing')
}
