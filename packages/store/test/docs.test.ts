import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { codeOf, readDocument, tableRows } from '../../../scripts/test/markdown.ts'
import { startPostgres } from '../../../scripts/test/postgres.ts'
import * as api from '../src/index.ts'

const { blocks, prose } = readDocument('packages/store/README.md')
const textOf = (info: string) => blocks.find((block) => block.info === info)?.text ?? ''

t.test('the example of the README runs on both engines, and prints what it says', async (t) => {
  // Within the workspace, where the package is found by its name.
  const folder = t.testdir({ 'example.ts': textOf('ts') })
  const run = async (where: string) => {
    const args = ['--conditions=@gatehouse/source', join(folder, 'example.ts'), where]
    return (await promisify(execFile)(process.execPath, args)).stdout
  }
  const server = await startPostgres(t)
  for (const where of [join(folder, 'bank.db'), server.url])
    t.equal(await run(where), textOf('text'), where)
})

t.test('the README names each export, and each error', async (t) => {
  const rows = tableRows(prose).flatMap(([names = '']) => codeOf(names))
  t.strictSame(
    Object.keys(api).filter((name) => !rows.includes(name)),
    [],
  )
  const codes = codeOf(prose.join('\n')).filter((code) => /^STORE_[A-Z]+_?[A-Z]*$/.test(code))
  for (const code of codes.filter((code) => code !== 'STORE_ERRORS'))
    t.ok(Object.hasOwn(api.STORE_ERRORS, code), code)
})
