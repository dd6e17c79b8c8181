import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { privatePackages } from '../sizes.ts'
import { codeOf, ROOT, readDocument, tableRows } from './markdown.ts'

/** Examples that need more than this machine, such as an identity provider. */
const NOT_RUN: readonly string[] = ['packages/identity-providers']

for (const unit of privatePackages())
  t.test(`the README of ${unit}`, async (t) => {
    const { blocks, prose } = readDocument(`${unit}/README.md`)
    const textOf = (info: string) => blocks.find((block) => block.info === info)?.text ?? ''
    const named = tableRows(prose).flatMap(([names = '']) => codeOf(names))
    const exported = Object.keys(await import(join(ROOT, unit, 'src/index.ts')))
    t.strictSame(
      exported.filter((name) => !named.includes(name)),
      [],
      'it names each export',
    )
    if (NOT_RUN.includes(unit)) return
    const folder = t.testdir()
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [
        '--conditions=@gatehouse/source',
        '--input-type=module-typescript',
        '-',
        join(folder, 'data'),
        join(folder, 'master.key'),
      ],
      // Within the workspace, where packages are found by their names.
      { cwd: folder, input: textOf('ts'), encoding: 'utf8' },
    )
    t.equal(stdout, textOf('text'), stderr)
  })
