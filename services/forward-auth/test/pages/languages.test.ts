import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
import { html } from '@remix-run/html-template'
import t from 'tap'
import { ERRORS } from '../../src/errors.ts'
import { fill, fillHtml, textsIn, writeDuration } from '../../src/pages/languages.ts'

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

t.test('parts of a page in braces are what they are, and texts are escaped', async (t) => {
  t.equal(String(fillHtml('<i> {b}{c}', { b: html`<b>x</b>` })), '&lt;i&gt; <b>x</b>')
})

t.test('durations are written as in the language, rounded up', async (t) => {
  const table: [seconds: number, written: Record<Language, string>][] = [
    [1, { en: '1 second', de: '1 Sekunde', fr: '1 seconde', es: '1 segundo' }],
    [40.2, { en: '41 seconds', de: '41 Sekunden', fr: '41 secondes', es: '41 segundos' }],
    [119, { en: '2 minutes', de: '2 Minuten', fr: '2 minutes', es: '2 minutos' }],
    [3_601, { en: '61 minutes', de: '61 Minuten', fr: '61 minutes', es: '61 minutos' }],
  ]
  for (const [seconds, written] of table)
    for (const tag of LANGUAGES)
      t.equal(writeDuration(tag, seconds).replace(/\s/g, ' '), written[tag], tag)
})
