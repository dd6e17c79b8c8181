import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ACME_ERRORS } from '../src/index.ts'

const folder = join(import.meta.dirname, '../src')
const source = globSync('**/*.ts', { cwd: folder })
  .filter((file) => !/(^|\/)errors\.ts$/.test(file))
  .map((file) => readFileSync(join(folder, file), 'utf8'))
  .join('\n')

t.test('each listed code is used, and each used code is listed', async (t) => {
  const used = new Set(source.match(/(?<=')ACME_[A-Z_]+(?=')/g))
  t.strictSame([...used].toSorted(), Object.keys(ACME_ERRORS).toSorted())
})
