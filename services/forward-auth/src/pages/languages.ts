import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
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

/** A time in ms, as people write it, in UTC. */
export function writeTime(language: Language, time: number): string {
  const date = { day: 'numeric', month: 'long', year: 'numeric' } as const
  const clock = { hour: '2-digit', minute: '2-digit' } as const
  const zone = { timeZone: 'UTC', timeZoneName: 'short' } as const
  // As the pages of certificates write it: the day first, and 24 hours.
  const locale = language === 'en' ? 'en-GB' : language
  return new Intl.DateTimeFormat(locale, { ...date, ...clock, ...zone }).format(time)
}
