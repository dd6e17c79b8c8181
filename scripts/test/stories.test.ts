import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readStories } from '../stories.ts'
import { ROOT } from './markdown.ts'

/** The files under each heading of docs/request-path.md, in its order. */
function documentedStories(): Map<string, string[]> {
  const text = readFileSync(join(ROOT, 'docs/request-path.md'), 'utf8')
  const sections = text.split(/^## /m).slice(1)
  return new Map(
    sections.map((section) => [
      section.split('\n', 1)[0] ?? '',
      [...section.matchAll(/^\d+\. `([^`]+)`: /gm)].map(([, file = '']) => file),
    ]),
  )
}

t.test('the page on requests shows the files of each story in order', async (t) => {
  const documented = documentedStories()
  for (const { title, limit, files } of await readStories()) {
    t.strictSame(documented.get(title), files, `${title}: see npm run stories`)
    t.ok(files.length <= limit, `${title} runs through at most ${limit} files`)
  }
})
