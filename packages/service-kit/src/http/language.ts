import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import Negotiator from 'negotiator'

/** The languages of the pages by their tag (RFC 5646). The first one is for everybody else. */
export const LANGUAGES = ['en', 'de', 'fr', 'es'] as const

export type Language = (typeof LANGUAGES)[number]

const MAX_HEADER = 200

const chosen = new LRUCache<string, Language>({
  max: 200,
  memoMethod: (header) => {
    const headers = { 'accept-language': header }
    return (new Negotiator({ headers }).language([...LANGUAGES]) as Language | undefined) ?? 'en'
  },
})

/** The language for an `Accept-Language` header (RFC 9110 section 12.5.4). */
export function chooseLanguage(header: string | undefined): Language {
  return chosen.memo((header ?? '*').slice(0, MAX_HEADER))
}

/** The language in which a person gets a page. */
export function languageOf({ headers }: Pick<FastifyRequest, 'headers'>): Language {
  return chooseLanguage(headers['accept-language'])
}
