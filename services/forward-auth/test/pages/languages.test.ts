import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
import t from 'tap'
import { ERRORS } from '../../src/errors.ts'
import { fill, textsIn, writeTime } from '../../src/pages/languages.ts'

const en = textsIn('en')

/** Each text by its path. */
function flatten(texts: object, path = ''): [path: string, text: string][] {
  return Object.entries(texts).flatMap(([key, value]) =>
    typeof value === 'string'
      ? [[`${path}/${key}`, value] as [string, string]]
      : flatten(value as object, `${path}/${key}`),
  )
}

const bracesIn = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).toSorted()

t.test('every language has every text, with the same braces', async (t) => {
  const english = new Map(flatten(en))
  for (const tag of LANGUAGES) {
    const found = flatten(textsIn(tag))
    t.strictSame(
      found.map(([path]) => path).toSorted(),
      [...english.keys()].toSorted(),
      `${tag}: the same keys`,
    )
    for (const [path, text] of found) {
      t.strictSame(bracesIn(text), bracesIn(english.get(path) ?? ''), `${tag}${path}`)
      t.match(text, /^\S(.*\S)?$/, `${tag}${path}: not empty`)
      const isTranslated = tag === 'en' || path === '/brand' || text !== english.get(path)
      t.ok(isTranslated, `${tag}${path}: translated`)
    }
    t.strictSame(Intl.getCanonicalLocales(tag), [tag], `${tag} is a language tag`)
  }
})

t.test('the texts of a language are in that language', async (t) => {
  const titles = LANGUAGES.map((tag) => [tag, textsIn(tag).signIn.title])
  t.strictSame(Object.fromEntries(titles), {
    en: 'Sign in',
    de: 'Anmelden',
    fr: 'Connexion',
    es: 'Iniciar sesión',
  })
})

t.test('the English titles are those of the problems', async (t) => {
  for (const [code, { title }] of Object.entries(ERRORS))
    if (code in en.errors) t.equal(en.errors[code as keyof typeof en.errors].title, title, code)
})

t.test('fills in what is in braces, as it is', async (t) => {
  t.equal(fill('a {host} b {host}', { host: '$& {end}' }), 'a $& {end} b $& {end}')
  t.equal(fill('a {toString}', {}), 'a ')
})

t.test('times are written as in the language', async (t) => {
  const time = Date.UTC(2030, 0, 2, 3, 4)
  const written: Record<Language, string> = {
    en: '2 January 2030 at 03:04 UTC',
    de: '2. Januar 2030 um 03:04 UTC',
    fr: '2 janvier 2030 à 03:04 UTC',
    es: '2 de enero de 2030 a las 03:04 UTC',
  }
  for (const tag of LANGUAGES) t.equal(writeTime(tag, time).replace(/\s/g, ' '), written[tag], tag)
})
