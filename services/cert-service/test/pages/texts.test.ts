import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { LANGUAGES, type Language } from '@gatehouse/service-kit/pages'
import { type DefaultTreeAdapterTypes, parse } from 'parse5'
import t from 'tap'
import { plain, say } from '../../src/pages/say.ts'
import { TEXTS } from '../../src/pages/texts.ts'
import { everyPage } from '../helpers/pages.ts'

const OTHERS = LANGUAGES.filter((lang) => lang !== 'en')
const SRC = join(import.meta.dirname, '../../src')
/** Where a language has the same word. */
const SAME = new Set(['ACME', 'de Name', 'fr Pages'])

const bracesIn = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).toSorted()

t.test('every text is in every language, with the same braces', async (t) => {
  for (const [english, texts] of Object.entries(TEXTS)) {
    t.equal(texts.length, OTHERS.length, english)
    texts.forEach((text, i) => {
      const tag = `${OTHERS[i]} ${english}`
      t.strictSame(bracesIn(text), bracesIn(english), tag)
      t.match(text, /^\S(.*\S)?$/, `${tag}: not empty`)
      const isSame = text === english
      t.equal(isSame, SAME.has(tag) || SAME.has(english), `${tag}: translated`)
    })
  }
})

t.test('every text is used', async (t) => {
  const code = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('texts.ts'))
    .map((file) => readFileSync(join(SRC, file), 'utf8'))
    .join('')
  for (const text of Object.keys(TEXTS))
    t.ok(code.includes(`'${text}'`) || code.includes(` ${text}: `), text)
})

t.test('what is filled in stays as it is, and is no markup', async (t) => {
  const name = '<b>{count}$&</b>'
  t.equal(plain('de', 'Key {name}', { name }), `Schlüssel ${name}`)
  t.equal(String(say('fr', 'Key {name}', { name })), 'Clé &lt;b&gt;{count}$&amp;&lt;/b&gt;')
  t.equal(plain('es', 'Key {name}'), 'Clave ')
})

/** What people read and hear of a page, but for what is not of a language. */
function saidOn(html: string): string[] {
  const said: string[] = []
  const look = (node: DefaultTreeAdapterTypes.Node): void => {
    if ('value' in node) said.push(node.value)
    if (!('childNodes' in node)) return
    if ('tagName' in node) {
      const of = new Map(node.attrs.map(({ name, value }) => [name, value]))
      const isOther = ['style', 'script', 'code', 'bdi', 'time', 'textarea'].includes(node.tagName)
      if (isOther || of.get('lang') === 'en') return
      for (const name of ['aria-label', 'title', 'data-copied', 'placeholder'])
        said.push(of.get(name) ?? '')
    }
    node.childNodes.forEach(look)
  }
  look(parse(html))
  return said
}

/** Names, formats and products, which all languages have. */
const NAMES =
  /said!?|Gatehouse|app\.example\.com|dns-01|p256|p384|ed25519|rsa\d+|SHA-256|UTC|PEM|superseded|\/docs|\bpsk:\w+|renew\b/g

t.test('no English is left in a page of another language', async (t) => {
  for (const lang of OTHERS) {
    const at = LANGUAGES.indexOf(lang) - 1
    const known = Object.values(TEXTS)
      .flatMap((texts) => texts[at]!.split(/\{\w+\}/))
      .map((part) => part.trim())
      .filter((part) => /\p{L}{2}/u.test(part))
      .toSorted((a, b) => b.length - a.length)
    for (const [name, { html, language }] of Object.entries(everyPage('said', lang))) {
      t.equal(language, lang, name)
      t.match(html, `<html lang="${lang}">`)
      const left = saidOn(html.replace(`<html lang="${lang}">`, '<html>')).map((text) =>
        known
          .reduce((rest, part) => rest.replaceAll(part, ' '), text)
          .replace(NAMES, ' ')
          .replace(DAYS[lang], ' '),
      )
      t.strictSame(
        left.filter((text) => /\p{L}{2}/u.test(text)),
        [],
        `${lang} ${name}`,
      )
    }
  }
})

/** The names of months in the dates of the charts. */
const DAYS: Readonly<Record<Language, RegExp>> = {
  en: /\bJan\b/g,
  de: /\bJan\./g,
  fr: /\bjanv\./g,
  es: /\bene\b/g,
}
