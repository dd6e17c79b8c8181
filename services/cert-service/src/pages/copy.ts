import type { Language } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { plain, say } from './say.ts'

/** Shows the buttons that copy where a browser lets them. Where it refuses, the field is selected for the keyboard. */
export const COPY_SCRIPT = `
if (navigator.clipboard) for (const button of document.querySelectorAll('[data-copied]')) {
  const field = button.parentElement.querySelector('input, textarea')
  const said = button.nextElementSibling
  button.hidden = false
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(button.value || field.value)
      said.textContent = button.dataset.copied
      setTimeout(() => { said.textContent = '' }, 4000)
    } catch { field?.select() }
  }
}`

/** What the commands to copy expect on a machine: the root of this service, and an API key. */
export const ROOT_FILE = '/etc/gatehouse/root.pem'
export const KEY_FILE = '/etc/gatehouse/client.key'
export const CURL = `curl --cacert ${ROOT_FILE} -H "Authorization: APIKey $(cat ${KEY_FILE})"`

/** Copies a value, or else the field beside it. A live region says that it did. */
export function copyButton(lang: Language, what: string, value = ''): SafeHtml {
  const done = plain(lang, 'Copied')
  return html`
    <button type="button" class="copies" hidden value="${value}" data-copied="${done}">
      ${say(lang, 'Copy')}<span class="unseen"> ${what}</span>
    </button>
    <output class="copies"></output>`
}

/** A field that is selected as a whole when the keyboard enters it, without script. */
export function copyField(lang: Language, label: string, value: string): SafeHtml {
  return html`
    <div class="copied">
      <label>${label}<input readonly spellcheck="false" value="${value}"></label>
      ${copyButton(lang, label)}
    </div>`
}

export function copyText(lang: Language, label: string, text: string): SafeHtml {
  const rows = text.trimEnd().split('\n').length
  return html`
    <div class="copied">
      <label>${label}<textarea readonly spellcheck="false" rows="${rows}">
${text}</textarea></label>
      ${copyButton(lang, label)}
    </div>`
}
