import {
  type AuditRecord,
  NAME_PAGE,
  type PastCertificate,
  type Transition,
} from '@gatehouse/cert-store/port'
import { type Language, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { certificateHref } from '../pages/links.ts'
import { icon, type Tone } from '../pages/notice.ts'
import { english, say, type Text } from '../pages/say.ts'
import { issuerText } from '../pages/state.ts'
import { pastStatus } from './status.ts'

export function history(
  lang: Language,
  past: readonly PastCertificate[],
  shown?: Pick<PastCertificate, 'id'>,
): SafeHtml {
  if (past.length === 0) return html`<p>${say(lang, 'No certificate of this name is stored.')}</p>`
  const rows = past.map((record) => {
    const [tone, sentence] = record.isCurrent
      ? (['good', say(lang, 'In service.')] as const)
      : pastStatus(lang, record, past)
    const { keyType, issuer, notBefore, notAfter, serialNumber } = record
    const isShown = record.id === shown?.id
    const link = isShown
      ? html`<b aria-current="page"><code>${serialNumber}</code></b> (${say(lang, 'this page')})`
      : html`<a href="${certificateHref(record)}"><code>${serialNumber}</code></a>`
    const names =
      record.names.length > 1
        ? html`, ${say(lang, '+ {count} more', { count: record.names.length - 1 })}`
        : ''
    return row(
      tone,
      html`${link}
        <p>${sentence}</p>
        <p class="muted">${writeTime(lang, notBefore)} – ${writeTime(lang, notAfter)}, ${keyType}, ${issuerText(lang, issuer)}${names}</p>`,
    )
  })
  const more =
    past.length >= NAME_PAGE
      ? html`<p>${say(lang, 'Only the newest {count} are shown.', { count: NAME_PAGE })}</p>`
      : ''
  return html`<ul class="past">${rows}</ul>${more}`
}

/** Texts by action. Actions with ACME accounts and the root are about no name. */
const DONE: Readonly<Record<Exclude<AuditRecord['action'], `acme-${string}` | 'ca-roll'>, Step>> = {
  issue: ['good', 'Issued'],
  'hand-out': ['past', 'Fetched'],
  renew: ['good', 'Renewed'],
  'request-renewal': ['past', 'Renewal requested'],
  revoke: ['bad', 'Revoked'],
  delete: ['warn', 'Deleted'],
  refuse: ['warn', 'Refused'],
  fail: ['bad', 'Failed'],
}
type Step = readonly [tone: Tone, text: Text]

const CHANGED: Readonly<Record<Transition['action'], Step>> = {
  ...DONE,
  replace: ['past', 'Replaced'],
  reinstate: ['good', 'Back in service'],
}

export function transitions(lang: Language, list: readonly Transition[]): SafeHtml {
  const rows = list.map(({ action, actor, account, at: time }) => {
    const [tone, text] = CHANGED[action]
    const accountText = account === null ? '' : html` · ACME <code>${account}</code>`
    return row(
      tone,
      html`<b>${say(lang, text)}</b> · <code>${actor}</code>${accountText} <span class="muted">${writeTime(lang, time)}</span>`,
    )
  })
  return html`<ul class="past">${rows}</ul>`
}

export function activity(lang: Language, entries: readonly AuditRecord[]): SafeHtml {
  if (entries.length === 0)
    return html`<p>${say(lang, 'The newest rows of the audit trail do not mention this name.')}</p>`
  const rows = entries.map(({ action, actor, at: time, count, detail, remoteAddress }) => {
    if (!(action in DONE)) return ''
    const [tone, text] = DONE[action as keyof typeof DONE]
    const times = count > 1 ? html` · ${say(lang, '{count} times in an hour', { count })}` : ''
    const from = remoteAddress === undefined ? '' : html` · <code>${remoteAddress}</code>`
    const more = detail === undefined ? '' : html` · ${english(detail)}`
    return row(
      tone,
      html`<b>${say(lang, text)}</b> · <code>${actor}</code>${from}${times}
        <span class="muted">${writeTime(lang, time)}${more}</span>`,
    )
  })
  return html`<ul class="past">${rows}</ul>`
}

function row(tone: Tone, body: SafeHtml): SafeHtml {
  return html`<li class="${tone}">${icon(tone)}<div>${body}</div></li>`
}
