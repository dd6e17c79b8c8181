import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { codeOf, ROOT, readDocument, tableRows } from './markdown.ts'

const STRING = /(['"`])((?:\\.|(?!\1).)*)\1/g

/** The strings in a test file, which include the names of its tests. */
function stringsIn(file: string): Set<string> {
  const source = readFileSync(join(ROOT, file), 'utf8')
  return new Set([...source.matchAll(STRING)].map(([, , text = '']) => text))
}

/** Each test that docs/threats.md names, with the file that is said to contain it. */
function namedTests(): [file: string, name: string][] {
  let folder = ''
  return readDocument('docs/threats.md').prose.flatMap((line): [string, string][] => {
    folder = /^Tests in `([^`]+)`\.$/.exec(line)?.[1] ?? folder
    const cell = tableRows([line])[0]?.at(-1) ?? ''
    const [file = ''] = codeOf(cell)
    return file.endsWith('.test.ts') ? [[join(folder, file), cell.slice(file.length + 4)]] : []
  })
}

t.test('every test that docs/threats.md names exists', async (t) => {
  const named = namedTests()
  t.ok(named.length > 100)
  for (const [file, name] of named) t.ok(stringsIn(file).has(name), `${file}: ${name}`)
})
