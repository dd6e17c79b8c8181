import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { codeOf, readDocument, tableRows } from '../../../scripts/test/markdown.ts'
import * as api from '../src/index.ts'

const { blocks, prose } = readDocument('packages/certs-client/README.md')
const textOf = (info: string) => blocks.find((block) => block.info === info)?.text ?? ''

t.test('the example of the README prints what it says', async (t) => {
  // Within the workspace, where the package is found by its name.
  const cwd = t.testdir({ 'example.ts': textOf('ts') })
  const args = ['--conditions=@gatehouse/source', join(cwd, 'example.ts')]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd })
  t.equal(stdout, textOf('text'))
})

t.test('the README names each export', async (t) => {
  const rows = tableRows(prose).flatMap(([names = '']) => codeOf(names))
  t.strictSame(rows.toSorted(), Object.keys(api).toSorted())
})
