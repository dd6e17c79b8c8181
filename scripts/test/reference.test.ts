import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { referenceFiles } from '../reference.ts'

const root = join(import.meta.dirname, '../..')

t.test('docs/reference is what the code says', async (t) => {
  for (const [file, text] of await referenceFiles())
    t.equal(readFileSync(join(root, file), 'utf8'), text, `${file}: npm run docs`)
})
