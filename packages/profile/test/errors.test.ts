import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { PROFILE_ERRORS, ProfileError } from '../src/index.ts'

const src = join(import.meta.dirname, '../src')
const sources = globSync('**/*.ts', { cwd: src, exclude: ['errors.ts'] })
  .map((file) => readFileSync(join(src, file), 'utf8'))
  .join('\n')

t.test('every listed error is thrown', async (t) => {
  for (const code of Object.keys(PROFILE_ERRORS)) t.match(sources, `'${code}'`, code)
})

t.test('an error carries its code, message and column', async (t) => {
  const cause = new Error('cause')
  const error = new ProfileError('PROFILE_CONDITION_INVALID', 'no', { cause, column: 3 })
  t.match(error, {
    name: 'ProfileError',
    code: 'PROFILE_CONDITION_INVALID',
    message: 'no',
    column: 3,
  })
  t.equal(error.cause, cause)
})
