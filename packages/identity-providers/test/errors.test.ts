import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { PROVIDER_ERRORS } from '../src/errors.ts'

const SRC = join(import.meta.dirname, '../src')

t.test('every listed code is thrown, and every thrown code is listed', async (t) => {
  const files = globSync('**/*.ts', { cwd: SRC, exclude: ['errors.ts'] })
  const text = files.map((file) => readFileSync(join(SRC, file), 'utf8')).join('')
  const used = new Set([...text.matchAll(/\bFWA_[A-Z_]+\b/g)].map(([code]) => code))
  t.strictSame([...used].sort(), Object.keys(PROVIDER_ERRORS))
})
