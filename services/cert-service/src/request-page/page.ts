import { KEY_TYPES } from '@gatehouse/pki'
import type { Language, Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { type Static, Type } from 'typebox'
import { card, type Reader, toInventory } from '../pages/card.ts'
import { REQUEST_PATH } from '../pages/links.ts'
import { notice } from '../pages/notice.ts'
import { sentence } from '../pages/problem.ts'
import { english, plain, say } from '../pages/say.ts'

/** The fields of the form; `names` are further ones, with white space or commas between them. */
export const FormSchema = Type.Object({
  domain: Type.String({ maxLength: 254 }),
  names: Type.String({ maxLength: 3_000 }),
  keyType: Type.Enum([...KEY_TYPES, '']),
})
export type RequestForm = Static<typeof FormSchema>

export interface Objection {
  readonly detail: string
  /** Whether it is about the further names, and not the first one. */
  readonly isAboutNames: boolean
  readonly action: SafeHtml | undefined
}

export function requestPage(
  reader: Reader,
  { domain, names, keyType }: RequestForm,
  objection?: Objection,
): Page {
  const { lang } = reader
  const invalid = html` aria-invalid="true" aria-describedby="wrong"`
  const first = objection && !objection.isAboutNames ? invalid : ''
  const otherFaults = objection?.isAboutNames ? invalid : ''
  return card(
    reader,
    plain(lang, 'Request a certificate'),
    html`
      <p>${say(lang, 'You first see what the request would do. The service then keeps the certificate and its key up to date.')}</p>
      ${objection ? refusal(objection) : ''}
      <form method="post" action="${REQUEST_PATH}">
        <label for="domain">${say(lang, 'Name')}</label>
        <input id="domain" name="domain" value="${domain}" maxlength="254" required autofocus
          autocapitalize="none" spellcheck="false" placeholder="app.example.com"${first}>
        <label for="names">${say(lang, 'More names (optional)')}</label>
        <textarea id="names" name="names" rows="3" maxlength="3000"
          autocapitalize="none" spellcheck="false"${otherFaults}>
${names}</textarea>
        <label for="keyType">${say(lang, 'Key')}</label>
        <select id="keyType" name="keyType">${options(lang, keyType)}</select>
        <button class="main">${say(lang, 'Show what would happen')}</button>
      </form>
      ${toInventory(lang)}`,
  )
}

function refusal({ detail, action }: Objection): SafeHtml {
  const more = action ? html`<p>${action}</p>` : ''
  return html`<div role="alert" id="wrong">${notice('bad', english(sentence(detail)), more)}</div>`
}

function options(lang: Language, chosen: RequestForm['keyType']): SafeHtml {
  const option = (value: string, text: string) =>
    html`<option value="${value}"${value === chosen ? html` selected` : ''}>${text}</option>`
  return html`${option('', plain(lang, 'default'))}${KEY_TYPES.map((type) => option(type, type))}`
}

/** The form that makes a request, after a dry run has shown what it leads to. */
export function confirmRequest(lang: Language, form: RequestForm): SafeHtml {
  const fields = Object.entries({ ...form, confirmed: 'yes' }).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
  return html`
    <form method="post" action="${REQUEST_PATH}">
      ${fields}
      <button class="main">${say(lang, 'Request it')}</button>
    </form>`
}
