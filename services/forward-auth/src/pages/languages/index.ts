import type { Language } from '@gatehouse/service-kit/pages'
import { de } from './de.ts'
import { en, type Texts } from './en.ts'
import { es } from './es.ts'
import { fr } from './fr.ts'

export type { Language } from '@gatehouse/service-kit/pages'

/** The texts by the tags of their languages. */
export const LANGUAGES: Readonly<Record<Language, Texts>> = { en, de, fr, es }

export function textsIn(language: Language): Texts {
  return LANGUAGES[language]
}

/** Fills in what is in braces. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name) =>
    Object.hasOwn(values, name) ? (values[name] ?? '') : '',
  )
}

/** A time in ms, as people write it, in UTC. */
export function writeTime(language: Language, time: number): string {
  const date = { day: 'numeric', month: 'long', year: 'numeric' } as const
  const clock = {
    hour: '2-digit',
    minute: '2-digit',
    timeZone: 'UTC',
    timeZoneName: 'short',
  } as const
  // As the pages of certificates write it: the day first, and 24 hours.
  const locale = language === 'en' ? 'en-GB' : language
  return new Intl.DateTimeFormat(locale, { ...date, ...clock }).format(time)
}
