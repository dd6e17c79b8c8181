import fc from 'fast-check'
import t from 'tap'
import { chooseLanguage, LANGUAGES } from '../../src/http/language.ts'

t.test('Accept-Language chooses, and English is for everybody else', async (t) => {
  const table: [header: string | undefined, language: string][] = [
    [undefined, 'en'],
    ['', 'en'],
    ['*', 'en'],
    ['de', 'de'],
    ['DE-at', 'de'],
    ['de-AT,de;q=0.9,en;q=0.8', 'de'],
    ['en-GB,en;q=0.9,de;q=0.8', 'en'],
    ['nl, fr;q=0.5, de;q=0.4', 'fr'],
    ['es-419', 'es'],
    ['en;q=0.1, es;q=0.2', 'es'],
    ['de;q=0, fr;q=0.1', 'fr'],
    ['de;q=0', 'en'],
    ['nl-BE, ja', 'en'],
    ['constructor, __proto__', 'en'],
    [`${'x-y,'.repeat(5_000)}de`, 'en'],
  ]
  for (const [header, language] of table)
    t.equal(chooseLanguage(header), language, header ?? 'none')
  fc.assert(fc.property(fc.string(), (header) => LANGUAGES.includes(chooseLanguage(header))))
})
