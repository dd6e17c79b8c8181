import type {
  CertificateRecord,
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

function currentStatus(record: CertificateRecord, { lang, order, now }: Around): Status {
  const at = { when: whenFromNow(lang, record.notAfter, now) }
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

const DELETED =
  'Out of service: it was deleted, and is no longer served. Copies stay valid until it ends or is revoked.'

/** Tells what became of a certificate that is no longer in service. */
export function pastStatus(
  lang: Language,
  {
    askedBy,
    revokedAt,
    revocationReason,
    requestKey,
    id,
    names,
  }: InService & Pick<PastCertificate, 'requestKey' | 'id' | 'names'>,
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
  // The newest comes first, so the last newer one is its replacement.
  const newer = history.filter((one) => one.id > id)
  const successor = newer.filter((one) => one.requestKey === requestKey).at(-1)
  const isSame = (one: PastCertificate) => one.names.toSorted().join() === names.toSorted().join()
  if (!successor && askedBy === null && newer.some(isSame))
    return { tone: 'past', said: say(lang, 'Replaced by a newer one, for another key.') }
  if (!successor) return { tone: 'past', said: say(lang, DELETED) }
  return {
    tone: 'past',
    said: say(lang, 'Replaced by a newer one on {when}.', {
      when: when(lang, successor.madeAt ?? successor.notBefore),
    }),
    more: html`<p><a href="${certificateHref(successor)}">${say(lang, 'Its replacement')}</a></p>`,
  }
}
