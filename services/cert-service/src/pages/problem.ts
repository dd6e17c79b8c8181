import { FASTIFY_ERRORS, HTTP_ERRORS, type Problem } from '@gatehouse/service-kit/http'
import { type Page, prose } from '@gatehouse/service-kit/pages'
import { html } from '@remix-run/html-template'
import { actionFor } from '../errors.ts'
import { card, toInventory } from './card.ts'
import { errorHref } from './links.ts'

/** Advice for people, where the tables of errors say what a program does. */
const FOR_PEOPLE = {
  AUTH_CREDENTIALS_MISSING:
    'This address is for programs, which send a key or a token. Sign in at the list of certificates instead.',
  CERT_NAME_NOT_ALLOWED: 'Ask an operator for a rule that grants this to you.',
  CERT_NOT_FOUND: 'Look for the name in the list. The first request for a name gets a certificate.',
  CERT_ORDER_NOT_FOUND:
    'Look for the name in the list. Finished orders are kept for a limited time.',
  INTERNAL: 'Try again. If it stays like this, the log has the cause under the id of the request.',
  METHOD_NOT_ALLOWED: 'This address is for programs, or for a form. Begin at the list instead.',
  NOT_FOUND: 'Check the address, or look for the name in the list.',
}
const ACTIONS: ReadonlyMap<string, string> = new Map([
  ...Object.entries({ ...FASTIFY_ERRORS, ...HTTP_ERRORS }).map(
    ([code, { action }]) => [code, action] as const,
  ),
  ...Object.entries(FOR_PEOPLE),
])

/** The page about an error: what went wrong, and what to do. A refusal looks different from what passes. */
export function problemPage({
  title,
  detail,
  code,
  status,
  errors = [],
  requestId,
}: Problem): Page {
  const members = errors
    .filter((one) => one.detail !== detail)
    .map((one) => html`<li><code>${one.pointer}</code> ${one.detail}</li>`)
  const action = adviceFor(code)
  const request = requestId ? html` · request <code>${requestId}</code>` : ''
  return card(
    title,
    html`
      ${detail ? html`<p>${sentence(detail)}</p>` : ''}
      ${members.length > 0 ? html`<ul class="plain">${members}</ul>` : ''}
      ${action ? html`<p>${prose(action)}</p>` : ''}
      <p class="muted"><a href="${errorHref(code)}"><code>${code}</code></a>${request}</p>
      ${toInventory}`,
    status >= 500 || status === 429 ? 'warn' : 'bad',
  )
}

/** Finds what a person does about an error; undefined for codes of other software. */
export function adviceFor(code: string): string | undefined {
  return ACTIONS.get(code) ?? actionFor(code)
}

/** Makes a sentence of a detail, which is the end of one. A name that it begins with stays as it is. */
export function sentence(detail: string): string {
  const text = /^[a-z]+ /.test(detail) ? `${detail[0]?.toUpperCase()}${detail.slice(1)}` : detail
  return /[.!?]$/.test(text) ? text : `${text}.`
}
