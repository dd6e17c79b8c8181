// The pictures of docs/images: each is shown somewhere, described, and small.
import { existsSync, globSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import { type Document, parseDocument, ROOT, readDocuments } from './markdown.ts'

const MAX_BYTES = 80_000
const MAX_ALL_BYTES = 1_000_000
/** A picture of Markdown, or a tag of HTML. */
const PICTURE = /!\[([^\]]*)\]\(([^()\s]+)\)|<(img|source)\s([^>]*)>/g

interface Picture {
  readonly path: string
  /** Nothing where another picture speaks for it. */
  readonly alt: string | undefined
}

function picturesOf({ prose }: Pick<Document, 'prose'>): Picture[] {
  return [...prose.join('\n').matchAll(PICTURE)].map(([, alt, path = '', tag, attributes = '']) => {
    const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1]
    if (tag === undefined) return { path, alt }
    if (tag === 'img') return { path: attribute('src') ?? '', alt: attribute('alt') ?? '' }
    return { path: attribute('srcset') ?? '', alt: undefined }
  })
}

const DOCUMENTS = readDocuments('{*,{docs,bench,examples,packages,services}/**/*}.md')
const shown = DOCUMENTS.flatMap((document) =>
  picturesOf(document).map((picture) => ({ ...picture, file: document.file })),
)
const pathOf = (file: string, path: string) => relative(ROOT, join(ROOT, dirname(file), path))

t.test('each picture that a page shows exists and is described', async (t) => {
  t.ok(shown.length > 20)
  for (const { file, path, alt } of shown) {
    t.ok(existsSync(join(ROOT, pathOf(file, path))), `${file}: ${path}`)
    // The docs site finds pictures by paths that begin so.
    if (file.startsWith('docs/')) t.match(path, /^\.\.?\//, `${file}: ${path}`)
    if (alt !== undefined) t.ok(alt.length > 20, `${file}: ${path} says what it shows`)
  }
})

t.test('a picture on light ground has one on dark ground beside it', async (t) => {
  const light = shown.filter(({ path }) => path.includes('-light.'))
  t.ok(light.length > 5)
  for (const { file, path } of light) {
    const dark = path.replace('-light.', '-dark.')
    t.ok(
      shown.some((other) => other.file === file && other.path === dark),
      `${file}: ${dark}`,
    )
  }
})

t.test('each picture is shown somewhere and is small', async (t) => {
  const files = globSync('docs/images/*', { cwd: ROOT })
  const used = new Set(shown.map(({ file, path }) => pathOf(file, path)))
  t.strictSame(
    files.filter((file) => !used.has(file)),
    [],
  )
  const sizes = files.map((file) => statSync(join(ROOT, file)).size)
  for (const [n, size] of sizes.entries()) t.ok(size < MAX_BYTES, `${files[n]}: ${size}`)
  t.ok(sizes.reduce((sum, size) => sum + size) < MAX_ALL_BYTES)
})

t.test('pictures are found in Markdown and in HTML, but not in blocks', (t) => {
  const text = [
    '![A gate](a.svg)',
    '<picture><source srcset="b.webp"><img src="c.webp"',
    '  alt="A door"></picture> <img src="d.webp">',
    '```text',
    '![none](e.svg)',
    '```',
  ].join('\n')
  t.strictSame(picturesOf(parseDocument('x.md', text)), [
    { path: 'a.svg', alt: 'A gate' },
    { path: 'b.webp', alt: undefined },
    { path: 'c.webp', alt: 'A door' },
    { path: 'd.webp', alt: '' },
  ])
  t.end()
})
