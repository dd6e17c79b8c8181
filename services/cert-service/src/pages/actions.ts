import type { IssuedCertificate } from '@gatehouse/cert-store/port'
import type { RevocationReason } from '@gatehouse/pki'
import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { Static } from 'typebox'
import type { DryRunSchema } from '../schemas.ts'
import { card, toInventory } from './cards.ts'
import { nameHref, orderHref } from './links.ts'
import { notice } from './notice.ts'
import { whenFromNow } from './time.ts'

type DryRun = Static<typeof DryRunSchema>

/** What people may do with the certificates of a name, with what it means for those who use them. */
const ACTION_TEXTS = {
  renew: {
    verb: 'Renew',
    means: 'A new certificate is issued if this one is due. The old one stays valid until it ends.',
  },
  revoke: {
    verb: 'Revoke',
    means:
      'These certificates, and the unexpired ones that they replaced, go on the revocation list. Clients that look there refuse them at once. The next request for the name gets a new certificate and key.',
  },
  delete: {
    verb: 'Delete',
    means:
      'These certificates are no longer answered or renewed. Copies stay valid until they end; to stop those too, revoke instead.',
  },
  'dry-run': {
    verb: 'Dry run',
    means:
      'Checks what a request for this certificate would lead to: the issuer, the proofs and the limits of the CA. Nothing is ordered or changed.',
  },
}
export type Action = keyof typeof ACTION_TEXTS
export const ACTIONS = Object.keys(ACTION_TEXTS) as readonly Action[]

/** The reasons of RFC 5280 in plain words, the usual ones first. */
const REASONS: Readonly<Record<RevocationReason, string>> = {
  unspecified: 'No particular reason',
  keyCompromise: 'Somebody else may have the private key; it is refused for good',
  superseded: 'Another certificate has taken its place',
  cessationOfOperation: 'The name is no longer in use',
  affiliationChanged: 'The name belongs to somebody else now',
  privilegeWithdrawn: 'It should not have been issued',
  cACompromise: 'Somebody else may have the key of the CA',
}

export function reasonText(reason: RevocationReason): string {
  return REASONS[reason]
}

function actionHref(action: Action, domain: string): string {
  return `${nameHref(domain)}/${action}`
}

export function actionLinks(actions: readonly Action[], domain: string): SafeHtml | '' {
  if (actions.length === 0) return ''
  const links = actions.map((action) => {
    const kind = action === 'revoke' || action === 'delete' ? 'button danger' : 'button'
    return html`<a class="${kind}" href="${actionHref(action, domain)}">${ACTION_TEXTS[action].verb}</a>`
  })
  return html`<div class="pages">${links}</div>`
}

interface Question {
  readonly domain: string
  /** What is revoked or deleted. */
  readonly affected?: readonly IssuedCertificate[]
  /** When it may be renewed, if that is later than now. */
  readonly dueAt?: number | undefined
  /** The order that a dry run is about. */
  readonly order?: string | undefined
  readonly now: number
}

/** Asks before something is done to the certificates of a name. */
export function confirmPage(action: Action, question: Question): Page {
  const { domain, affected = [], dueAt, order, now } = question
  const { verb, means } = ACTION_TEXTS[action]
  const back = html`<p><a href="${nameHref(domain)}">Back to ${domain}</a></p>`
  if (dueAt !== undefined)
    return card(
      `${domain} is not due yet`,
      html`<p>It can be renewed ${whenFromNow(dueAt, now)}, and the service does that by itself. Nobody has to do anything.</p>
<p>If it must be replaced now, revoke it: the next request gets a new certificate.</p>${back}`,
      'warn',
    )
  const hidden =
    order === undefined ? '' : html`<input type="hidden" name="order" value="${order}">`
  const isFinal = action === 'revoke' || action === 'delete'
  return card(
    `${verb} ${domain}?`,
    html`<p>${means}</p>${affectedList(affected)}
<form method="post" action="${actionHref(action, domain)}">${hidden}${action === 'revoke' ? reasons() : ''}<button class="${isFinal ? 'main final' : 'main'}">${verb}</button></form>
${back}`,
    isFinal ? 'warn' : undefined,
  )
}

const MAX_AFFECTED = 10

function affectedList(affected: readonly IssuedCertificate[]): SafeHtml | '' {
  if (affected.length === 0) return ''
  const shown = affected.slice(0, MAX_AFFECTED)
  const more = affected.length - shown.length
  const rows = shown.map(
    ({ names, serialNumber }) =>
      html`<li>${names.slice(0, 3).join(', ')}${names.length > 3 ? ` and ${names.length - 3} more names` : ''}<br><code>${serialNumber}</code></li>`,
  )
  return html`<ul class="affected">${rows}${more > 0 ? html`<li>and ${more} more</li>` : ''}</ul>`
}

function reasons(): SafeHtml {
  const choices = Object.entries(REASONS).map(
    ([reason, text], i) =>
      html`<label class="choice"><input type="radio" name="reason" value="${reason}"${i === 0 ? html` checked` : ''}><span>${text}<br><code>${reason}</code></span></label>`,
  )
  return html`<fieldset><legend>Why?</legend>${choices}</fieldset>`
}

/** What was done to the certificates of a name. */
export interface Done {
  readonly action: 'request' | 'renew' | 'revoke' | 'delete'
  readonly domain: string
  /** How many were revoked. */
  readonly count?: number
  readonly reason?: RevocationReason
  /** How many the CA does not know, so that they are revoked here alone. */
  readonly unknownAtCa?: number
  /** How many replicas have not confirmed it. */
  readonly unconfirmed?: number
  /** The order of a renewal that is still under way. */
  readonly order?: string
}

export function doneNotice(done: Done): SafeHtml {
  const { domain, unknownAtCa = 0, unconfirmed = 0 } = done
  const warnings = [
    unknownAtCa > 0 &&
      html`<p>The CA does not know ${unknownAtCa} of them, so they are revoked here alone.</p>`,
    unconfirmed > 0 &&
      html`<p>${unconfirmed} replicas have not confirmed it yet, and may answer the old certificate until they reach the database.</p>`,
  ].filter((warning) => warning !== false)
  const tone = warnings.length > 0 ? 'warn' : done.order === undefined ? 'good' : 'busy'
  return html`<div role="status">${notice(tone, `${domain}: ${said(done)}`, html`${warnings}${underWay(done)}`)}</div>`
}

function said({ action, count = 0, reason = 'unspecified', order }: Done): string {
  if (action === 'request') return 'issued.'
  if (action === 'delete') return 'deleted. It is no longer answered or renewed.'
  if (action === 'revoke')
    return `revoked ${count === 1 ? 'one certificate' : `${count} certificates`} (${reason}).`
  return order === undefined ? 'renewed.' : 'the renewal has begun.'
}

function underWay({ order }: Done): SafeHtml | '' {
  return order === undefined
    ? ''
    : html`<p><a href="${orderHref({ id: order })}">See how far it is</a></p>`
}

/** What was done, for those who may do it but not see the certificate. */
export function donePage(done: Done): Page {
  return card('Done', html`${doneNotice(done)}${toInventory}`)
}

/** What a request would lead to. @param confirm - the form that makes the request, if nothing is held yet */
export function dryRunPage(
  { domain, names, issuer, held, order, ...run }: DryRun,
  confirm?: SafeHtml,
): Page {
  const isFree = run.obstacles.length === 0
  const obstacles = html`<ul>${run.obstacles.map((one) => html`<li>${one}</li>`)}</ul>`
  const verdict = isFree
    ? notice('good', 'Nothing that is known stands in the way.')
    : notice('bad', 'It would fail:', obstacles)
  const answer = held
    ? html`<p>A request is answered with the certificate that is held, <code>${held.serialNumber}</code>, valid until ${held.notAfter}.</p>`
    : html`<p>A request would order a new certificate.</p>`
  return card(
    `Dry run for ${domain}`,
    html`${verdict}${answer}
<dl><div><dt>Issuer</dt><dd>${issuerText(issuer)}</dd></div><div><dt>Names</dt><dd>${names.join(', ')}</dd></div>${order ? html`<div><dt>Order</dt><dd><a href="${orderHref(order)}">${order.status}</a></dd></div>` : ''}</dl>
${proofs(run.proofs)}${budgets(run.budgets)}
<p>Nothing was ordered or changed.</p>${held ? '' : (confirm ?? '')}${confirm && !held ? toInventory : html`<p><a href="${nameHref(domain)}">Back to ${domain}</a></p>`}`,
  )
}

export function issuerText(issuer: string): string {
  return issuer === 'ca' ? 'the embedded CA' : issuer
}

const PROOF_TONES = { ready: 'good', failed: 'bad', unchecked: 'warn' } as const

function proofs(proofs: DryRun['proofs']): SafeHtml | '' {
  if (proofs.length === 0) return html`<p>The issuer needs no proof for these names.</p>`
  const rows = proofs.map(({ name, challenge, status, detail }) =>
    notice(PROOF_TONES[status], `${name}: ${status}`, html`<p>${challenge}: ${detail}</p>`),
  )
  return html`<h2>Proofs</h2>${rows}`
}

function budgets(budgets: DryRun['budgets']): SafeHtml | '' {
  if (budgets.length === 0) return ''
  const rows = budgets.map(
    ({ limit, subject, left, count, per, freeAt }) =>
      html`<li>${limit} for ${subject}: ${left} of ${count} left per ${per}${freeAt === undefined ? '' : `, the next at ${freeAt}`}</li>`,
  )
  return html`<h2>Limits of the CA</h2><ul class="plain">${rows}</ul>`
}
