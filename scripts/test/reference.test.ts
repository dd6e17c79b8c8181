import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { referenceFiles } from '../reference.ts'

const root = join(import.meta.dirname, '../..')

t.test('docs/reference is what the code says', async (t) => {
  for (const [file, text] of await referenceFiles())
    t.equal(readFileSync(join(root, file), 'utf8'), text, `${file}: npm run docs`)
})

t.test('links between the documents lead somewhere', async (t) => {
  const files = globSync('{*.md,{docs,bench,packages/*,services/*}/**/*.md}', {
    cwd: root,
    exclude: (name) => name.includes('node_modules') || name.includes('dist'),
  })
  t.ok(files.length > 5)
  for (const file of files) {
    const links = readFileSync(join(root, file), 'utf8').matchAll(
      /\]\((?!https?:|#)([^)#]+)[^)]*\)/g,
    )
    for (const [, target = ''] of links)
      t.doesNotThrow(() => globSync(join(root, file, '..', target)).at(0) ?? missing(target), file)
  }
})

function missing(target: string): never {
  throw new Error(`${target} does not exist`)
}
