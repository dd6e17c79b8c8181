import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { TEXTS } from './texts.ts'

/** A text of the pages. The code has it in English. */
export type Text = keyof typeof TEXTS

type Values = Readonly<Record<string, SafeHtml | string | number>>

/** Says a text in a language. Values take the place of what is in braces. */
export function say(lang: Language, text: Text, values: Values = {}): SafeHtml {
  return html`${partsOf(lang, text, values)}`
}

/** Says a text that has no markup, for a title or an attribute. */
export function plain(lang: Language, text: Text, values: Values = {}): string {
  return partsOf(lang, text, values).join('')
}

function partsOf(lang: Language, text: Text, values: Values) {
  const translation = lang === 'en' ? text : (TEXTS[text][LANGUAGES.indexOf(lang) - 1] ?? text)
  return translation.split(/\{(\w+)\}/).map((part, i) => (i % 2 ? (values[part] ?? '') : part))
}

/** Marks English text for readers of all languages, such as errors of programs and lines of the log. */
export function english(text: SafeHtml | string | undefined): SafeHtml {
  return html`<span lang="en">${text}</span>`
}
