import type {
  CertificateRecord,
  InService,
  OrderRecord,
  PastCertificate,
} from '@gatehouse/cert-store/port'
import { html, type SafeHtml } from '@remix-run/html-template'
import { reasonText } from '../actions/page.ts'
import { certificateHref } from '../pages/links.ts'
import { notice, type Tone } from '../pages/notice.ts'
import { stateOf } from '../pages/state.ts'
import { when, whenFromNow } from '../pages/time.ts'

/** The state of a certificate in words, and how good it is. */
interface Status {
  readonly tone: Tone
  readonly said: SafeHtml | string
  readonly more?: SafeHtml | ''
}

interface Around {
  readonly order: OrderRecord | undefined
  readonly history: readonly PastCertificate[]
  readonly now: number
}

/** Tells how a certificate is now. */
export function statusNotice(record: CertificateRecord & InService, around: Around): SafeHtml {
  const { tone, said, more } = record.isCurrent
    ? currentStatus(record, around)
    : pastStatus(record, around.history)
  return notice(tone, said, more)
}

const POST = html`<code>POST /api/certificate</code>`

function currentStatus(record: CertificateRecord, { order, now }: Around): Status {
  const end = whenFromNow(record.notAfter, now)
  switch (stateOf(record, order, now)) {
    case 'ended':
      return {
        tone: 'bad',
        said: html`Ended ${end}. Clients refuse it.`,
        more: html`<p>The next request for the name gets a new one.</p>`,
      }
    case 'failing':
      return {
        tone: 'bad',
        said:
          record.notAfter > now
            ? html`In service, but could not be renewed. It ends ${end}.`
            : html`Ended ${end}, as it could not be renewed. Clients refuse it.`,
      }
    case 'unrenewed':
      return {
        tone: 'warn',
        said: html`In service, but no longer renewed. It ends ${end}.`,
        more: html`<p>It has not been fetched for two of its lifetimes. The next ${POST} resumes the renewal.</p>`,
      }
    case 'due':
      return record.account
        ? {
            tone: 'warn',
            said: html`In service. Its ACME client was to renew it by now. It ends ${end}.`,
          }
        : { tone: 'busy', said: 'In service, and being renewed.' }
    default:
      return {
        tone: 'good',
        said: html`In service. It renews ${whenFromNow(record.renewAt ?? record.notAfter, now)}.`,
      }
  }
}

/** Tells what became of a certificate that is no longer in service. */
export function pastStatus(
  { revokedAt, revocationReason, lineage, id }: InService & Pick<PastCertificate, 'lineage' | 'id'>,
  history: readonly PastCertificate[],
): Status {
  if (revokedAt !== null)
    return {
      tone: 'bad',
      said: html`Revoked on ${when(revokedAt)}.`,
      more: revocationReason
        ? html`<p>${reasonText(revocationReason)} (<code>${revocationReason}</code>)</p>`
        : '',
    }
  // The newest comes first, so the last newer one is its replacement.
  const successor = history.filter((one) => one.lineage === lineage && one.id > id).at(-1)
  if (!successor)
    return { tone: 'past', said: 'Out of service: it was deleted, and is no longer served.' }
  return {
    tone: 'past',
    said: html`Replaced by a newer one on ${when(successor.madeAt ?? successor.notBefore)}.`,
    more: html`<p><a href="${certificateHref(successor)}">Its replacement</a></p>`,
  }
}
