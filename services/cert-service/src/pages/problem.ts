import { FASTIFY_ERRORS, HTTP_ERRORS, type Problem } from '@gatehouse/service-kit/http'
import { type Language, type Page, prose } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import { card, type Reader, toInventory } from './card.ts'
import { errorHref } from './links.ts'
import { english, say, type Text } from './say.ts'

/** Advice for people, where the tables of errors say what a program does. */
const FOR_PEOPLE: Readonly<Record<string, Text>> = {
  AUTH_CREDENTIALS_MISSING:
    'This address is for programs, which send a key or a token. Sign in at the list of certificates instead.',
  CERT_NAME_NOT_ALLOWED: 'Ask whoever runs this service for a rule that grants this to you.',
  CERT_NOT_FOUND: 'Look for the name in the list. The first request for a name gets a certificate.',
  CERT_ORDER_NOT_FOUND:
    'Look for the name in the list. Finished orders are kept for a limited time.',
  INTERNAL: 'Try again. If it stays like this, the log has the cause under the id of the request.',
  METHOD_NOT_ALLOWED: 'This address is for programs, or for a form. Begin at the list instead.',
  NOT_FOUND: 'Check the address, or look for the name in the list.',
}
const ROWS = Object.entries({ ...FASTIFY_ERRORS, ...HTTP_ERRORS })
const ACTIONS = new Map(ROWS.map(([code, { action }]) => [code, action]))

/** The page about an error: what went wrong, and what to do. A refusal looks different from what passes. */
export function problemPage(
  reader: Reader,
  { title, detail, code, status, errors = [], requestId }: Problem,
): Page {
  const { lang } = reader
  const members = errors
    .filter((fault) => fault.detail !== detail)
    .map((fault) => html`<li><code>${fault.pointer}</code> ${english(prose(fault.detail))}</li>`)
  const action = adviceFor(lang, code)
  const id = html`<code>${requestId}</code>`
  const request = requestId ? html` · ${say(lang, 'request {id}', { id })}` : ''
  return card(
    reader,
    title,
    html`
      ${detail ? html`<p>${english(prose(sentence(detail)))}</p>` : ''}
      ${members.length > 0 ? html`<ul class="plain">${members}</ul>` : ''}
      ${action ? html`<p>${action}</p>` : ''}
      <p class="muted"><a href="${errorHref(code)}"><code>${code}</code></a>${request}</p>
      ${toInventory(lang)}`,
    { tone: status >= 500 || status === 429 ? 'warn' : 'bad', lang: 'en' },
  )
}

/** Finds what a person does about an error; undefined for codes of other software. */
export function adviceFor(lang: Language, code: string): SafeHtml | undefined {
  if (Object.hasOwn(FOR_PEOPLE, code)) return say(lang, FOR_PEOPLE[code] as Text)
  const action = ACTIONS.get(code) ?? actionFor(code)
  return action === undefined ? undefined : english(prose(action))
}

/** Makes a sentence of a detail, which is the end of one. A name that it begins with stays as it is. */
export function sentence(detail: string): string {
  const text = /^[a-z]+ /.test(detail) ? `${detail[0]?.toUpperCase()}${detail.slice(1)}` : detail
  return /[.!?]$/.test(text) ? text : `${text}.`
}
