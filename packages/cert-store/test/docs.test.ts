import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { codeOf, readDocument, tableRows } from '../../../scripts/test/markdown.ts'
import * as api from '../src/index.ts'

const { blocks, prose } = readDocument('packages/cert-store/README.md')
const textOf = (info: string) => blocks.find((block) => block.info === info)?.text ?? ''

t.test('the example of the README runs, and prints what it says', async (t) => {
  const folder = t.testdir()
  const args = ['--conditions=@gatehouse/source', '--input-type=module-typescript', '-']
  const places = [join(folder, 'data'), join(folder, 'master.key')]
  const { stdout, stderr } = spawnSync(process.execPath, [...args, ...places], {
    // The package is found by its name there.
    cwd: import.meta.dirname,
    input: textOf('ts'),
    encoding: 'utf8',
  })
  t.equal(stdout, textOf('text'), stderr)
})

t.test('the README names each export', async (t) => {
  const rows = tableRows(prose).flatMap(([names = '']) => codeOf(names))
  t.strictSame(
    Object.keys(api).filter((name) => !rows.includes(name)),
    [],
  )
})
