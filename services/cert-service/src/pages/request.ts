import type { OrderRecord } from '@gatehouse/cert-store/port'
import { KEY_TYPES, type KeyType } from '@gatehouse/pki'
import { type Page, prose } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { card, toInventory } from './cards.ts'
import { notice } from './notice.ts'
import { sentence } from './problem.ts'

export const REQUEST_PATH = '/request'

/** What was typed in. */
export interface Wanted {
  readonly domain: string
  /** Further names, with white space or commas between them. */
  readonly names: string
  readonly keyType?: KeyType | undefined
}

/** Why a request cannot be made. */
export interface Objection {
  readonly detail: string
  /** Whether it is about the further names, and not the first one. */
  readonly isAboutNames: boolean
  readonly action: string | undefined
}

/** Asks which certificate is to be requested. */
export function requestPage(wanted: Wanted, objection?: Objection): Page {
  const wrong = objection
    ? html`<div role="alert" id="wrong">${notice('bad', sentence(objection.detail), objection.action ? html`<p>${prose(objection.action)}</p>` : '')}</div>`
    : ''
  const invalid = html` aria-invalid="true" aria-describedby="wrong"`
  const [first, others] = objection?.isAboutNames ? ['', invalid] : [objection ? invalid : '', '']
  return card(
    'Request a certificate',
    html`<p>What a request would lead to is shown first. The service keeps the certificate and its key up to date for those who fetch it.</p>${wrong}
<form method="post" action="${REQUEST_PATH}"><label for="domain">Name</label>
<input id="domain" name="domain" value="${wanted.domain}" maxlength="254" required autofocus autocapitalize="none" spellcheck="false" placeholder="app.example.com"${first}>
<label for="names">Further names, if any</label>
<textarea id="names" name="names" rows="3" maxlength="3000" autocapitalize="none" spellcheck="false"${others}>
${wanted.names}</textarea>
<label for="keyType">Key</label>
<select id="keyType" name="keyType">${options(wanted.keyType)}</select>
<button class="main">Show what would happen</button></form>
${toInventory}`,
  )
}

function options(chosen: KeyType | undefined): SafeHtml {
  const option = (value: string, text: string) =>
    html`<option value="${value}"${value === (chosen ?? '') ? html` selected` : ''}>${text}</option>`
  return html`${option('', 'as usual')}${KEY_TYPES.map((type) => option(type, type))}`
}

/** The form that makes a request of which a dry run has shown what it leads to. */
export function confirmRequest({ domain, names, keyType = '' as never }: Wanted): SafeHtml {
  const fields = Object.entries({ domain, names, keyType, confirmed: 'yes' }).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
  return html`<form method="post" action="${REQUEST_PATH}">${fields}<button class="main">Request it</button></form>`
}

/** The form again, filled in for an order; undefined if its caller holds the key. */
export function requestAgainHref(order: OrderRecord): string | undefined {
  if (order.csr) return undefined
  const [domain = '', ...others] = order.names
  const query = { domain, names: others.join(' '), keyType: order.keyType }
  return `${REQUEST_PATH}?${new URLSearchParams(query)}`
}
