import { type AuditRecord, NAME_PAGE, type PastCertificate } from '@gatehouse/cert-store/port'
import { html, type SafeHtml } from '@remix-run/html-template'
import { issuerText } from './actions.ts'
import { certificateHref } from './links.ts'
import { icon, type Tone } from './notice.ts'
import { pastStatus } from './status.ts'
import { when } from './time.ts'

/** The certificates of a name, the newest first. */
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
    return row(
      tone,
      html`${link}<p>${said}</p><p class="muted">${when(notBefore)} to ${when(notAfter)}, ${keyType}, ${issuerText(issuer)}${one.names.length > 1 ? html`, ${one.names.length} names` : ''}</p>`,
    )
  })
  const more =
    past.length >= NAME_PAGE ? html`<p>Older ones than these ${NAME_PAGE} are not shown.</p>` : ''
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

/** Who did what with a name, the newest first. */
export function activity(entries: readonly AuditRecord[]): SafeHtml {
  if (entries.length === 0)
    return html`<p>The newest part of the audit trail has nothing about this name.</p>`
  const rows = entries.map(({ action, actor, at, count, detail, remoteAddress }) =>
    row(
      DONE[action].tone,
      html`<b>${DONE[action].text}</b>${count > 1 ? ` ${count} times in an hour` : ''} by <code>${actor}</code>${remoteAddress === undefined ? '' : html` from <code>${remoteAddress}</code>`}<p class="muted">${when(at)}${detail === undefined ? '' : html` · ${detail}`}</p>`,
    ),
  )
  return html`<ul class="past">${rows}</ul>`
}

function row(tone: Tone, body: SafeHtml): SafeHtml {
  return html`<li class="${tone}">${icon(tone)}<div>${body}</div></li>`
}
