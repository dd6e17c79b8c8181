import { html, type SafeHtml } from '@remix-run/html-template'
import { certificateHref } from '../pages/links.ts'
import { icon, type Tone } from '../pages/notice.ts'
import { issuerText } from '../pages/state.ts'
import { when } from '../pages/time.ts'
import { type AuditRecord, NAME_PAGE, type PastCertificate } from '../store/store.ts'
import { pastStatus } from './status.ts'

/** Lists the certificates of a name, the newest first. */
export function history(
  past: readonly PastCertificate[],
  shown?: Pick<PastCertificate, 'id'>,
): SafeHtml {
  if (past.length === 0) return html`<p>No certificate of this name is stored.</p>`
  const rows = past.map((one) => {
    const { tone, said } = one.isCurrent
      ? { tone: 'good' as const, said: 'In service.' }
      : pastStatus(one, past)
    const { keyType, issuer, notBefore, notAfter, serialNumber } = one
    const isShown = one.id === shown?.id
    const link = isShown
      ? html`<b aria-current="page"><code>${serialNumber}</code></b> (this page)`
      : html`<a href="${certificateHref(one)}"><code>${serialNumber}</code></a>`
    const names = one.names.length > 1 ? html`, ${one.names.length} names` : ''
    return row(
      tone,
      html`${link}
        <p>${said}</p>
        <p class="muted">${when(notBefore)} to ${when(notAfter)}, ${keyType}, ${issuerText(issuer)}${names}</p>`,
    )
  })
  const more = past.length >= NAME_PAGE ? html`<p>Only the newest ${NAME_PAGE} are shown.</p>` : ''
  return html`<ul class="past">${rows}</ul>${more}`
}

const DONE: Readonly<
  Record<AuditRecord['action'], { readonly tone: Tone; readonly text: string }>
> = {
  issue: { tone: 'good', text: 'Issued' },
  'hand-out': { tone: 'past', text: 'Fetched' },
  renew: { tone: 'good', text: 'Renewed' },
  revoke: { tone: 'bad', text: 'Revoked' },
  delete: { tone: 'warn', text: 'Deleted' },
  refuse: { tone: 'warn', text: 'Refused' },
  fail: { tone: 'bad', text: 'Failed' },
}

/** Lists what was done with a name and by whom, the newest first. */
export function activity(entries: readonly AuditRecord[]): SafeHtml {
  if (entries.length === 0)
    return html`<p>The newest rows of the audit trail do not mention this name.</p>`
  const rows = entries.map(({ action, actor, at, count, detail, remoteAddress }) => {
    const times = count > 1 ? ` ${count} times in an hour` : ''
    const from = remoteAddress === undefined ? '' : html` from <code>${remoteAddress}</code>`
    const more = detail === undefined ? '' : html` · ${detail}`
    return row(
      DONE[action].tone,
      html`<b>${DONE[action].text}</b>${times} by <code>${actor}</code>${from}<p class="muted">${when(at)}${more}</p>`,
    )
  })
  return html`<ul class="past">${rows}</ul>`
}

function row(tone: Tone, body: SafeHtml): SafeHtml {
  return html`<li class="${tone}">${icon(tone)}<div>${body}</div></li>`
}
