import type { IssuedCertificate } from '@gatehouse/cert-store/port'
import type { Profile, RevocationReason } from '@gatehouse/pki'
import { type Language, type Page, writeDistance } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { card, type Reader } from '../pages/card.ts'
import { nameHref } from '../pages/links.ts'
import { plain, say, type Text } from '../pages/say.ts'

/** The actions of people on the certificates of a name, with what each means for those who use them. */
const ACTION_TEXTS = {
  renew: {
    verb: 'Renew',
    asks: 'Renew {domain}?',
    means: [
      'A new certificate is issued if this one is due. The old one stays valid until it expires.',
    ],
  },
  revoke: {
    verb: 'Revoke',
    asks: 'Revoke {domain}?',
    means: [
      'These certificates, also those that are out of service, go on the revocation list.',
      'Clients that look there refuse them at once. The next request for the name gets a new certificate and key.',
    ],
  },
  delete: {
    verb: 'Delete',
    asks: 'Delete {domain}?',
    means: [
      'These certificates are no longer answered or renewed.',
      'Copies stay valid until they expire; to stop those too, revoke instead.',
    ],
  },
  retry: {
    verb: 'Try now',
    asks: 'Try {domain} now?',
    means: [
      'The orders for this name that failed are tried at once, within the limits of their CA.',
      'Use it when you have removed the cause.',
    ],
  },
  'dry-run': {
    verb: 'Check',
    asks: 'Check {domain}?',
    means: [
      'Checks what a request for this certificate would lead to: the issuer, the proofs and the limits of the CA.',
      'Nothing is ordered or changed.',
    ],
  },
} as const satisfies Readonly<Record<string, { verb: Text; asks: Text; means: readonly Text[] }>>
export type Action = keyof typeof ACTION_TEXTS
export const ACTIONS = Object.keys(ACTION_TEXTS) as readonly Action[]

/** The reasons of RFC 5280 in plain words, the usual ones first. */
export const REASONS: Readonly<Record<RevocationReason, Text>> = {
  unspecified: 'No particular reason',
  keyCompromise: 'Somebody else may have the private key; it is refused for good',
  superseded: 'Another certificate has taken its place',
  cessationOfOperation: 'The name is no longer in use',
  affiliationChanged: 'The name belongs to somebody else now',
  privilegeWithdrawn: 'It should not have been issued',
  cACompromise: 'Somebody else may have the key of the CA',
}

type ActionTarget = Pick<Confirmation, 'domain' | 'profile' | 'order'>

function actionHref(action: Action, { domain, profile, order }: ActionTarget): string {
  return nameHref(domain, profile, `/${action}`, order === undefined ? {} : { order })
}

/** Links to actions. @param again - the form that requests the same, for those who may */
export function actionLinks(
  lang: Language,
  actions: readonly Action[],
  target: ActionTarget,
  again?: string,
): SafeHtml | '' {
  if (actions.length === 0) return ''
  const links = actions.map((action) => {
    const kind = isFinal(action) ? 'button danger' : 'button'
    return html`<a class="${kind}" href="${actionHref(action, target)}">${say(lang, ACTION_TEXTS[action].verb)}</a>`
  })
  const request =
    again && html`<a class="button" href="${again}">${say(lang, 'Request it again')}</a>`
  return html`<div class="pages">${links}${request}</div>`
}

const isFinal = (action: Action) => action === 'revoke' || action === 'delete'

interface Confirmation {
  readonly domain: string
  readonly profile: Profile
  readonly affected?: readonly IssuedCertificate[]
  /** The time from which it may be renewed, if that is later than now. */
  readonly dueAt?: number | undefined
  /** The order that a dry run is about. */
  readonly order?: string | undefined
  /** Whether an ACME client renews it. */
  readonly isOfClient?: boolean
  readonly now: number
}

const NOT_DUE =
  'It can be renewed {when}, and the service does this automatically. You do not have to do anything.'
const CLIENT_NOT_DUE =
  'It can be renewed {when}, and its ACME client does this. You do not have to do anything.'
const CLIENT_ASKED =
  'Its ACME client is asked to renew it. The old one stays valid until it expires.'

export function confirmPage(reader: Reader, action: Action, confirmation: Confirmation): Page {
  const { lang } = reader
  const { domain, profile, affected = [], dueAt, order, isOfClient, now } = confirmation
  const { verb, asks, means: usual } = ACTION_TEXTS[action]
  const means = isOfClient ? ([CLIENT_ASKED] as const) : usual
  const notDue = isOfClient ? CLIENT_NOT_DUE : NOT_DUE
  const back = html`<p><a href="${nameHref(domain, profile)}">${say(lang, 'Back to {domain}', { domain })}</a></p>`
  if (dueAt !== undefined)
    return card(
      reader,
      plain(lang, '{domain} is not due yet', { domain }),
      html`
        <p>${say(lang, notDue, { when: writeDistance(lang, dueAt, now) })}</p>
        <p>${say(lang, 'If it must be replaced now, revoke it: the next request gets a new certificate.')}</p>
        ${back}`,
      { tone: 'warn' },
    )
  return card(
    reader,
    plain(lang, asks, { domain }),
    html`
      <p>${means.map((text) => html`${say(lang, text)} `)}</p>
      ${affectedList(lang, affected)}
      <form method="post" action="${actionHref(action, confirmation)}">
        ${order === undefined ? '' : html`<input type="hidden" name="order" value="${order}">`}
        ${action === 'revoke' ? reasons(lang) : ''}
        <button class="${isFinal(action) ? 'main final' : 'main'}">${say(lang, verb)}</button>
      </form>
      ${back}`,
    { tone: isFinal(action) ? 'warn' : undefined },
  )
}

const MAX_AFFECTED = 10

function affectedList(lang: Language, affected: readonly IssuedCertificate[]): SafeHtml | '' {
  if (affected.length === 0) return ''
  const shown = affected.slice(0, MAX_AFFECTED)
  const more = affected.length - shown.length
  const rows = shown.map(({ names, serialNumber }) => {
    const otherNames =
      names.length > 3 ? html` ${say(lang, '+ {count} more', { count: names.length - 3 })}` : ''
    return html`<li>${names.slice(0, 3).join(', ')}${otherNames}<br><code>${serialNumber}</code></li>`
  })
  return html`
    <ul class="affected">
      ${rows}
      ${more > 0 ? html`<li>${say(lang, '+ {count} more', { count: more })}</li>` : ''}
    </ul>`
}

function reasons(lang: Language): SafeHtml {
  const choices = Object.entries(REASONS).map(
    ([reason, text], i) => html`
        <label class="choice">
          <input type="radio" name="reason" value="${reason}"${i === 0 ? html` checked` : ''}>
          <span>${say(lang, text)}<br><code>${reason}</code></span>
        </label>`,
  )
  return html`<fieldset><legend>${say(lang, 'Why?')}</legend>${choices}</fieldset>`
}
