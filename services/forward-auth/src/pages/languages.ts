import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { TEXTS, type Translations } from './texts.ts'

export type { Language } from '@gatehouse/service-kit/pages'

type InLanguage<T> = {
  readonly [Name in keyof T]: T[Name] extends Translations ? InLanguage<T[Name]> : string
}
type Texts = InLanguage<typeof TEXTS>

const BY_LANGUAGE = Object.fromEntries(
  LANGUAGES.map((language, column) => [language, textsOf(TEXTS, column)]),
) as Readonly<Record<Language, Texts>>

/** Takes the column of one language. */
function textsOf(translations: Translations, column: number): object {
  const entries = Object.entries(translations).map(([name, value]) => [
    name,
    Array.isArray(value) ? value[column] : textsOf(value as Translations, column),
  ])
  return Object.fromEntries(entries)
}

export function textsIn(language: Language): Texts {
  return BY_LANGUAGE[language]
}

/** Replaces names in braces by their values. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name) =>
    Object.hasOwn(values, name) ? (values[name] ?? '') : '',
  )
}

/** Replaces names in braces by parts of a page. */
export function fillHtml(text: string, parts: Readonly<Record<string, SafeHtml>>): SafeHtml {
  return html`${text.split(/\{(\w+)\}/).map((piece, i) => (i % 2 === 0 ? piece : (parts[piece] ?? '')))}`
}

/** Writes how long something takes: `40 seconds`, `5 minutes`. */
export function writeDuration(language: Language, seconds: number): string {
  const [amount, unit] =
    seconds < 100 ? [Math.ceil(seconds), 'second'] : [Math.ceil(seconds / 60), 'minute']
  const format = { style: 'unit', unit, unitDisplay: 'long' } as const
  return new Intl.NumberFormat(language, format).format(amount)
}
