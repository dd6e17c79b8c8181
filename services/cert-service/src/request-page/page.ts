import { KEY_TYPES, type KeyType } from '@gatehouse/pki'
import { type Page, prose } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { card, toInventory } from '../pages/card.ts'
import { REQUEST_PATH } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { sentence } from '../pages/problem.ts'

/** The fields of the form as they were filled in. */
export interface RequestForm {
  readonly domain: string
  /** Further names, with white space or commas between them. */
  readonly names: string
  readonly keyType?: KeyType | undefined
}

/** The reason why a request cannot be made. */
export interface Objection {
  readonly detail: string
  /** Whether it is about the further names, and not the first one. */
  readonly isAboutNames: boolean
  readonly action: string | undefined
}

/** Asks which certificate is to be requested. */
export function requestPage({ domain, names, keyType }: RequestForm, objection?: Objection): Page {
  const invalid = html` aria-invalid="true" aria-describedby="wrong"`
  const first = objection && !objection.isAboutNames ? invalid : ''
  const others = objection?.isAboutNames ? invalid : ''
  return card(
    'Request a certificate',
    html`
      <p>You first see what the request would do. The service keeps the certificate and its key up to date for
        everybody who fetches them.</p>
      ${objection ? refusal(objection) : ''}
      <form method="post" action="${REQUEST_PATH}">
        <label for="domain">Name</label>
        <input id="domain" name="domain" value="${domain}" maxlength="254" required autofocus
          autocapitalize="none" spellcheck="false" placeholder="app.example.com"${first}>
        <label for="names">Further names, if any</label>
        <textarea id="names" name="names" rows="3" maxlength="3000"
          autocapitalize="none" spellcheck="false"${others}>
${names}</textarea>
        <label for="keyType">Key</label>
        <select id="keyType" name="keyType">${options(keyType)}</select>
        <button class="main">Show what would happen</button>
      </form>
      ${toInventory}`,
  )
}

function refusal({ detail, action }: Objection): SafeHtml {
  const more = action ? html`<p>${prose(action)}</p>` : ''
  return html`<div role="alert" id="wrong">${notice('bad', sentence(detail), more)}</div>`
}

function options(chosen: KeyType | undefined): SafeHtml {
  const option = (value: string, text: string) =>
    html`<option value="${value}"${value === (chosen ?? '') ? html` selected` : ''}>${text}</option>`
  return html`${option('', 'default')}${KEY_TYPES.map((type) => option(type, type))}`
}

/** The form that makes a request, after a dry run has shown what it leads to. */
export function confirmRequest({ domain, names, keyType = '' as never }: RequestForm): SafeHtml {
  const fields = Object.entries({ domain, names, keyType, confirmed: 'yes' }).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
  return html`
    <form method="post" action="${REQUEST_PATH}">
      ${fields}
      <button class="main">Request it</button>
    </form>`
}
