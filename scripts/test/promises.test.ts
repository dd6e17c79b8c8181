import t from 'tap'
import { readDocument, sentencesOf } from './markdown.ts'
import { hasTest } from './named-tests.ts'
import { PROMISES } from './promises.ts'

for (const [place, said] of Object.entries(PROMISES))
  t.test(place, async (t) => {
    const [file = '', part] = place.split(': ')
    const document = readDocument(file)
    const prose = part === undefined ? document.prose : linesBelow(part, document.prose)
    const sentences = sentencesOf({ ...document, prose })
    const of = (begins: string) => sentences.filter((one) => one.startsWith(begins))

    t.test('each sentence is listed once, as it begins', async (t) => {
      for (const [begins] of said) t.equal(of(begins).length, 1, begins)
      for (const one of sentences)
        t.equal(said.filter(([begins]) => one.startsWith(begins)).length, 1, one)
    })

    t.test('each promise names tests, and they exist', async (t) => {
      for (const [begins, ...tests] of said) {
        t.ok(tests.length > 0, begins)
        for (const test of tests) {
          if (test === 'advice' || test === 'definition') continue
          const [path = '', name = ''] = test.split(/: (.*)/s)
          t.ok(hasTest(path, name), `${begins}: ${test}`)
        }
      }
    })
  })

/** The lines from a heading to the next one. */
function linesBelow(heading: string, lines: readonly string[]): string[] {
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.endsWith(` ${heading}`)) + 1
  const length = lines.slice(start).findIndex((line) => /^#+ /.test(line))
  return lines.slice(start, start + length)
}
