// Whoever comes with a question of the field finds the answer within two clicks of the index.
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import { anchorsOf, linksOf, ROOT, readDocument, readDocuments } from './markdown.ts'
import { QUESTIONS } from './questions.ts'

const INDEX = 'docs/README.md'
const CLICKS = 2

/** The pages that one click leads to from each page of docs. */
const LINKED = new Map(
  readDocuments('docs/**/*.md').map((document) => [
    document.file,
    linksOf(document)
      .filter((link) => /^[^#:]+\.md(#|$)/.test(link))
      .map((link) => relative(ROOT, join(ROOT, dirname(document.file), link.split('#')[0] ?? ''))),
  ]),
)

/** How many clicks each page is away from the index. */
function clicksFrom(start: string): ReadonlyMap<string, number> {
  const clicks = new Map([[start, 0]])
  for (const [page, count] of clicks)
    for (const next of LINKED.get(page) ?? []) if (!clicks.has(next)) clicks.set(next, count + 1)
  return clicks
}

t.test('each question of the field is answered within two clicks of the index', async (t) => {
  t.ok(QUESTIONS.length >= 20)
  t.equal(new Set(QUESTIONS.map(({ source }) => source)).size, QUESTIONS.length, 'each once')
  const clicks = clicksFrom(INDEX)
  for (const { question, answer } of QUESTIONS) {
    const [page = '', anchor = ''] = answer.split('#')
    const file = `docs/${page}`
    t.ok((clicks.get(file) ?? Number.POSITIVE_INFINITY) <= CLICKS, `${question}: ${file}`)
    t.ok(anchorsOf(readDocument(file)).includes(anchor), `${question}: ${answer}`)
  }
})

t.test('a page that no page links to is not within reach', async (t) => {
  t.notOk(clicksFrom('docs/glossary.md').has('docs/no-such-page.md'))
  t.equal(clicksFrom(INDEX).get('docs/caddy.md'), 1)
})
