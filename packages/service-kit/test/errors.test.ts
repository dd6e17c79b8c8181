import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { CONFIG_ERRORS } from '../src/config/index.ts'
import { HTTP_ERRORS } from '../src/http/index.ts'

const folder = join(import.meta.dirname, '../..')
// What reads the configurations of other programs throws one of the codes.
const source = globSync('{service-kit,migrate}/src/**/*.ts', { cwd: folder })
  .filter((file) => file !== 'service-kit/src/errors.ts')
  .map((file) => readFileSync(join(folder, file), 'utf8'))
  .join('\n')

t.test('each listed code is used, and each used code is listed', async (t) => {
  const used = new Set(source.match(/(?<=')CONFIG_[A-Z_]+(?=')/g))
  t.strictSame([...used].toSorted(), Object.keys(CONFIG_ERRORS).toSorted())
  for (const code of Object.keys(HTTP_ERRORS)) t.ok(source.includes(`'${code}'`), code)
})
