import type {
  CertificateRecord,
  Coverage,
  InService,
  OrderRecord,
  PastCertificate,
} from '@gatehouse/cert-store/port'
import type { Language } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { reasonText } from '../actions/page.ts'
import { certificateHref } from '../pages/links.ts'
import { notice, type Tone } from '../pages/notice.ts'
import { say } from '../pages/say.ts'
import { stateOf } from '../pages/state.ts'
import { when, whenFromNow } from '../pages/time.ts'

/** The state of a certificate in words, and how good it is. */
interface Status {
  readonly tone: Tone
  readonly said: SafeHtml
  readonly more?: SafeHtml | ''
}

interface Around {
  readonly lang: Language
  readonly order: OrderRecord | undefined
  readonly history: readonly PastCertificate[]
  /** Who has all of its names in certificates that end later. */
  readonly coverage: Coverage | undefined
  /** When the account of its ACME client was last used; undefined if there is none. */
  readonly lastSeen: number | undefined
  readonly now: number
}

/** Tells how a certificate is now. */
export function statusNotice(record: CertificateRecord & InService, around: Around): SafeHtml {
  const { tone, said, more } = record.isCurrent
    ? currentStatus(record, around)
    : pastStatus(around.lang, record, around.history)
  return notice(tone, said, more)
}

const UNFETCHED =
  'It has not been fetched for two of its lifetimes. The next {request} resumes the renewal.'
const POST = html`<code>POST /api/certificate</code>`

const COVERED = {
  caller:
    'In service but late. Newer certificates have all of its names, so there is nothing to do. It ends {when}.',
  other:
    'In service but late. Another caller has newer certificates for all of its names. It ends {when}.',
} as const

function currentStatus(record: CertificateRecord, around: Around): Status {
  const { lang, order, now, coverage } = around
  const at = { when: whenFromNow(lang, record.notAfter, now) }
  if (coverage)
    return {
      tone: coverage === 'caller' ? 'past' : 'warn',
      said: say(lang, COVERED[coverage], at),
      more:
        coverage === 'caller'
          ? ''
          : html`<p>${say(lang, 'If the names have not moved there, restart what renews this one.')}</p>`,
    }
  switch (stateOf(record, order, now)) {
    case 'ended':
      return {
        tone: 'bad',
        said: say(lang, 'Ended {when}. Clients refuse it.', at),
        more: html`<p>${say(lang, 'The next request for the name gets a new one.')}</p>`,
      }
    case 'failing':
      return {
        tone: 'bad',
        said:
          record.notAfter > now
            ? say(lang, 'In service, but could not be renewed. It ends {when}.', at)
            : say(lang, 'Ended {when}, as it could not be renewed. Clients refuse it.', at),
      }
    case 'unrenewed':
      return {
        tone: 'warn',
        said: say(lang, 'In service, but no longer renewed. It ends {when}.', at),
        more: html`<p>${say(lang, UNFETCHED, { request: POST })}</p>`,
      }
    case 'due':
      return record.account
        ? {
            tone: 'warn',
            said: say(
              lang,
              'In service. Its ACME client was to renew it by now. It ends {when}.',
              at,
            ),
            more: lateClient(record, around),
          }
        : { tone: 'busy', said: say(lang, 'In service, and being renewed.') }
    default:
      return {
        tone: 'good',
        said: say(lang, 'In service. It renews {when}.', {
          when: whenFromNow(lang, record.renewAt ?? record.notAfter, now),
        }),
      }
  }
}

/** What is known of the client that is late, and what to do. */
function lateClient(record: CertificateRecord, { lang, lastSeen, now }: Around): SafeHtml {
  const { client, address, renewalInfoReadAt } = record
  const who = html`<code>${client ?? 'ACME'}</code>`
  const about = { client: who, address: html`<code>${address ?? '?'}</code>` }
  const seen =
    lastSeen === undefined
      ? say(
          lang,
          'The account of the client {client} at {address} has ended. Have the client make another one.',
          about,
        )
      : say(lang, 'The client {client} at {address} was last seen {when}. Restart it there.', {
          ...about,
          when: whenFromNow(lang, lastSeen, now),
        })
  const asks = renewalInfoReadAt ? '' : say(lang, 'It has never asked when to renew.')
  return html`<p>${seen} ${asks}</p>`
}

const DELETED =
  'Out of service: it was deleted, and is no longer served. Copies stay valid until it ends or is revoked.'

/** Tells what became of a certificate that is no longer in service. */
export function pastStatus(
  lang: Language,
  {
    revokedAt,
    revocationReason,
    replacedBy,
  }: Pick<InService, 'revokedAt' | 'revocationReason' | 'replacedBy'>,
  history: readonly PastCertificate[],
): Status {
  if (revokedAt !== null)
    return {
      tone: 'bad',
      said: say(lang, 'Revoked on {when}.', { when: when(lang, revokedAt) }),
      more: revocationReason
        ? html`<p>${reasonText(lang, revocationReason)} (<code>${revocationReason}</code>)</p>`
        : '',
    }
  if (replacedBy === null) return { tone: 'past', said: say(lang, DELETED) }
  const successor = history.find(({ id }) => id === replacedBy)
  if (!successor) return { tone: 'past', said: say(lang, 'Replaced by a newer one.') }
  return {
    tone: 'past',
    said: say(lang, 'Replaced by a newer one on {when}.', {
      when: when(lang, successor.madeAt ?? successor.notBefore),
    }),
    more: html`<p><a href="${certificateHref(successor)}">${say(lang, 'Its replacement')}</a></p>`,
  }
}
