import { LRUCache } from 'lru-cache'
import Negotiator from 'negotiator'
import { de } from './de.ts'
import { en, type Texts } from './en.ts'
import { es } from './es.ts'
import { fr } from './fr.ts'

/** The languages of the pages by their tag (RFC 5646). The first one is for everybody else. */
export const LANGUAGES = { en, de, fr, es }

export type Language = keyof typeof LANGUAGES

const TAGS = Object.keys(LANGUAGES) as Language[]
const MAX_HEADER = 200

const chosen = new LRUCache<string, Language>({
  max: 200,
  memoMethod: (header) => {
    const headers = { 'accept-language': header }
    return (new Negotiator({ headers }).language(TAGS) as Language | undefined) ?? 'en'
  },
})

/** The language for an `Accept-Language` header (RFC 9110 section 12.5.4). */
export function chooseLanguage(header: string | undefined): Language {
  return chosen.memo((header ?? '*').slice(0, MAX_HEADER))
}

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
  return new Intl.DateTimeFormat(language, { ...date, ...clock }).format(time)
}
