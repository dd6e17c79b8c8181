import t from 'tap'
import { readDocument, sentencesOf } from './markdown.ts'
import { hasTest } from './named-tests.ts'
import { PROMISES } from './promises.ts'

for (const [file, said] of Object.entries(PROMISES))
  t.test(file, async (t) => {
    const sentences = sentencesOf(readDocument(file))
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
