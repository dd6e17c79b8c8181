import { join } from 'node:path'
import t from 'tap'
import { ATTACKS } from '../../services/forward-auth/test/integration/proxy-attacks.ts'
import { codeOf, readDocument, tableRows } from './markdown.ts'
import { hasTest } from './named-tests.ts'

/** A file of a package is named by its path from the root, others by that from their folder. */
const pathOf = (folder: string, file: string) =>
  file.startsWith('packages/') ? file : join(folder, file)

/** Each test that docs/threats.md names, with the file that is said to contain it. */
function namedTests(): [file: string, name: string][] {
  let folder = ''
  return readDocument('docs/threats.md').prose.flatMap((line): [string, string][] => {
    folder = /^Tests in `([^`]+)`\.$/.exec(line)?.[1] ?? folder
    const cell = tableRows([line])[0]?.at(-1) ?? ''
    const [file = ''] = codeOf(cell)
    return file.endsWith('.test.ts') ? [[pathOf(folder, file), cell.slice(file.length + 4)]] : []
  })
}

t.test('every test that docs/threats.md names exists', async (t) => {
  const named = namedTests()
  t.ok(named.length > 100)
  for (const [file, name] of named) t.ok(hasTest(file, name), `${file}: ${name}`)
})

t.test('every test that stands for an attack in which proxies have no part exists', async (t) => {
  const named = Object.values(ATTACKS).flatMap(({ elsewhere = [] }) => elsewhere)
  t.ok(named.length > 20)
  for (const test of named) {
    const [file = '', name = ''] = test.split(/: (.*)/s)
    t.ok(hasTest(pathOf('services/forward-auth/test', file), name), test)
  }
})
