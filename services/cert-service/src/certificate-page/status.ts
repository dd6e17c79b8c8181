import type {
  CertificateRecord,
  Coverage,
  InService,
  OrderRecord,
  PastCertificate,
} from '@gatehouse/cert-store/port'
import { type Language, writeDistance, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { REASONS } from '../actions/page.ts'
import { certificateHref } from '../pages/links.ts'
import { notice, type Tone } from '../pages/notice.ts'
import { say } from '../pages/say.ts'
import { stateOf } from '../pages/state.ts'

/** The state of a certificate as its notice has it: how good it is, and in words. */
type Status = readonly [tone: Tone, said: SafeHtml, more?: SafeHtml | '']

/** The facts about a certificate that are not in it. */
export interface Around {
  readonly lang: Language
  /** The latest order, of the request key of the certificate if there is one. */
  readonly order: OrderRecord | undefined
  /** All certificates of its first name that the visitor may see, the newest first. */
  readonly history: readonly PastCertificate[]
  /** The owner of certificates that have all of its names and end later. */
  readonly coverage: Coverage | undefined
  /** The time at which the account of its ACME client was last used; undefined if it has none. */
  readonly lastSeen: number | undefined
  readonly now: number
}

/** A certificate in service, or one with what became of it. */
export type Shown = CertificateRecord & (InService | { readonly isCurrent: true })

export function statusNotice(record: Shown, around: Around): SafeHtml {
  return record.isCurrent
    ? notice(...currentStatus(record, around))
    : notice(...pastStatus(around.lang, record, around.history))
}

const UNFETCHED =
  'It has not been fetched for two of its lifetimes. The next {request} resumes the renewal.'
const ENDED = 'Expired {when}. Clients refuse it.'
const COVERED_LATE = 'In service but late. It expires {when}.'
const FAILING = 'In service, but could not be renewed. It expires {when}.'
const FAILED = 'Expired {when}, as it could not be renewed. Clients refuse it.'
const LATE = 'In service. Its ACME client was to renew it by now. It expires {when}.'
const POST = html`<code>POST /api/certificate</code>`

const COVERED = {
  caller: 'Newer certificates have all of its names, so there is nothing to do.',
  other:
    'Another caller has newer certificates for all of its names. If they have not moved there, restart what renews this one.',
} as const

function currentStatus(record: CertificateRecord, around: Around): Status {
  const { lang, order, now, coverage } = around
  const moments = { when: writeDistance(lang, record.notAfter, now) }
  if (coverage) {
    const sentence = say(lang, record.notAfter > now ? COVERED_LATE : ENDED, moments)
    const tone = coverage === 'caller' ? 'past' : 'warn'
    return [tone, sentence, html`<p>${say(lang, COVERED[coverage])}</p>`]
  }
  // One of today's issuer says nothing of what a fallback has signed.
  const ownOrder = order?.requestKey === record.requestKey ? order : undefined
  switch (stateOf(record, ownOrder, now)) {
    case 'ended': {
      const next = html`<p>${say(lang, 'The next request for the name gets a new one.')}</p>`
      return ['bad', say(lang, ENDED, moments), record.account ? lateClient(record, around) : next]
    }
    case 'failing':
      return ['bad', say(lang, record.notAfter > now ? FAILING : FAILED, moments)]
    case 'unrenewed': {
      const sentence = say(lang, 'In service, but no longer renewed. It expires {when}.', moments)
      return ['warn', sentence, html`<p>${say(lang, UNFETCHED, { request: POST })}</p>`]
    }
    case 'due':
      return record.account
        ? ['warn', say(lang, LATE, moments), lateClient(record, around)]
        : ['busy', say(lang, 'In service, and being renewed.')]
    default: {
      const renewal = { when: writeDistance(lang, record.renewAt ?? record.notAfter, now) }
      return ['good', say(lang, 'In service. It renews {when}.', renewal)]
    }
  }
}

const ACCOUNT_ENDED =
  'The account of the client {client} at {address} has ended. Have the client make another one.'
const LAST_SEEN = 'The client {client} at {address} was last seen {when}. Restart it there.'

function lateClient(record: CertificateRecord, { lang, lastSeen, now }: Around): SafeHtml {
  const { client, address, renewalInfoReadAt } = record
  const who = html`<code>${client ?? 'ACME'}</code>`
  const about = { client: who, address: html`<code>${address ?? '?'}</code>` }
  const seen =
    lastSeen === undefined
      ? say(lang, ACCOUNT_ENDED, about)
      : say(lang, LAST_SEEN, { ...about, when: writeDistance(lang, lastSeen, now) })
  const asks = renewalInfoReadAt ? '' : say(lang, 'It has never asked when to renew.')
  return html`<p>${seen} ${asks}</p>`
}

const DELETED =
  'Out of service: it was deleted, and is no longer served. Copies stay valid until it expires or is revoked.'

export function pastStatus(
  lang: Language,
  record: Pick<InService, 'revokedAt' | 'revocationReason' | 'replacedBy'>,
  history: readonly PastCertificate[],
): Status {
  const { revokedAt, revocationReason: reason, replacedBy } = record
  if (revokedAt !== null) {
    const why = reason ? html`<p>${say(lang, REASONS[reason])} (<code>${reason}</code>)</p>` : ''
    return ['bad', say(lang, 'Revoked on {when}.', { when: writeTime(lang, revokedAt) }), why]
  }
  if (replacedBy === null) return ['past', say(lang, DELETED)]
  const successor = history.find(({ id }) => id === replacedBy)
  if (!successor) return ['past', say(lang, 'Replaced by a newer one.')]
  const moments = { when: writeTime(lang, successor.madeAt ?? successor.notBefore) }
  const link = html`<a href="${certificateHref(successor)}">${say(lang, 'Its replacement')}</a>`
  return ['past', say(lang, 'Replaced by a newer one on {when}.', moments), html`<p>${link}</p>`]
}
