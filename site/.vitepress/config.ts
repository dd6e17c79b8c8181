import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type DefaultTheme, defineConfig } from 'vitepress'
import { markdown } from './markdown.ts'
import { searchBox } from './search-box.ts'
import {
  type Entry,
  llmsOf,
  markdownOf,
  PAGES,
  placeOf,
  ROOT,
  readIndex,
  summaryOf,
} from './tree.ts'

/** SOURCE is the address of the repository, BASE the path of the site. */
const { SOURCE, BASE = '/' } = process.env
const PUBLIC = join(import.meta.dirname, 'public')

const others = readdirSync(ROOT, { withFileTypes: true }).flatMap((one) => {
  if (one.isDirectory()) return one.name === 'docs' ? [] : [`${one.name}/**`]
  return one.name.endsWith('.md') && !PAGES.includes(one.name) ? [one.name] : []
})

function sidebarItem({ text, file, items }: Entry): DefaultTheme.SidebarItem {
  const isPage = PAGES.includes(file)
  return {
    text,
    link: isPage
      ? `/${placeOf(file).replace(/(index)?\.md$/, (_, index) => (index ? '' : '.html'))}`
      : `/${file}`,
    ...(!isPage && { target: '_self' }),
    ...(items.length > 0 && { items: items.map(sidebarItem), collapsed: true }),
  }
}

/** Pages are outside of this folder, and would not find its modules. */
const vueForPages = {
  name: 'vue-for-pages',
  enforce: 'pre' as const,
  resolveId: (id: string, _importer: unknown, { ssr = false }: { ssr?: boolean }) =>
    ssr && /^vue(\/server-renderer)?$/.test(id) ? { id, external: true } : undefined,
}

export default defineConfig({
  title: 'Gatehouse',
  description: summaryOf('README.md'),
  lang: 'en',
  base: BASE,
  srcDir: '..',
  srcExclude: others,
  outDir: join(ROOT, 'dist/site'),
  cacheDir: join(import.meta.dirname, '../node_modules/.cache'),
  rewrites: { 'README.md': 'index.md', 'docs/README.md': 'docs/index.md' },
  metaChunk: true,
  // It would add a style to the page, which the content security policy refuses.
  appearance: { disableTransition: false },
  // The demo, which runs on the machine of the reader.
  ignoreDeadLinks: 'localhostLinks',
  markdown,
  // Images stay beside the pages, as in the repository.
  vue: { template: { transformAssetUrls: false } },
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${BASE}favicon.svg` }],
    ['noscript', {}, `<link rel="stylesheet" href="${BASE}no-script.css">`],
  ],
  vite: {
    publicDir: PUBLIC,
    logLevel: 'warn',
    plugins: [vueForPages, searchBox],
    build: { chunkSizeWarningLimit: 4_000 },
  },
  themeConfig: {
    logo: { src: '/favicon.svg', alt: '' },
    nav: [
      { text: 'Start', link: '/docs/getting-started.html' },
      { text: 'All pages', link: '/docs/' },
      { text: 'Changelog', link: '/CHANGELOG.html' },
    ],
    sidebar: [
      { text: 'Gatehouse', items: [{ text: 'What it is', link: '/' }] },
      ...readIndex().map(({ title, entries }) => ({
        text: title,
        items: entries.map(sidebarItem),
      })),
      {
        text: 'Project',
        items: [
          { text: 'Security policy', link: '/SECURITY.html' },
          { text: 'Changelog', link: '/CHANGELOG.html' },
          { text: 'Contributing', link: '/CONTRIBUTING.html' },
        ],
      },
    ],
    outline: { level: [2, 3], label: 'On this page' },
    search: { provider: 'local' },
    docFooter: { prev: 'Previous', next: 'Next' },
    ...(SOURCE && { socialLinks: [{ icon: 'github', link: SOURCE, ariaLabel: 'Repository' }] }),
  },
  transformPageData(page) {
    const file = PAGES.find((one) => placeOf(one) === page.relativePath)
    if (file === undefined) return
    page.description = summaryOf(file).slice(0, 200)
    if (file === 'README.md') page.frontmatter.pageClass = 'start'
    // Its contents are at its top, and each key is a heading.
    if (file.startsWith('docs/reference/'))
      Object.assign(page.frontmatter, { pageClass: 'reference', outline: 2 })
  },
  transformHtml: (html, _id, { page }) =>
    withPolicy(page === '404.md' ? html.replace('<div id="app"></div>', `$&${NOT_FOUND}`) : html),
  buildEnd({ outDir }) {
    const files = PAGES.flatMap((page) => {
      const { text, files } = markdownOf(page)
      write(join(outDir, placeOf(page)), text)
      return files
    })
    for (const file of new Set(files)) cpSync(join(ROOT, file), join(outDir, file))
    const images = join(ROOT, 'docs/images')
    if (existsSync(images)) cpSync(images, join(outDir, 'docs/images'), { recursive: true })
    const logo = join(images, 'logo.svg')
    if (existsSync(logo)) cpSync(logo, join(outDir, 'favicon.svg'))
    write(join(outDir, 'llms.txt'), llmsOf(BASE))
  },
})

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** The theme shows this page by its script alone. */
const NOT_FOUND = `<noscript><main class="not-found"><h1>There is no such page</h1>
<p><a href="${BASE}docs/index.html">All pages</a></p></main></noscript>`

/** Allows the scripts of the page by their hashes, and nothing from elsewhere. */
function withPolicy(html: string): string {
  const inline = [...html.matchAll(/<script(?![^>]*\bsrc=)[^>]*>([\s\S]*?)<\/script>/g)]
  const hashes = inline.map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  )
  const policy = [
    // The theme places its menus by styles of elements.
    "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'",
    `script-src ${["'self'", ...new Set(hashes)].join(' ')}`,
    "form-action 'none'; base-uri 'none'",
  ].join('; ')
  return html.replace(
    /<meta charset="utf-8">/i,
    (charset) => `${charset}\n    <meta http-equiv="content-security-policy" content="${policy}">`,
  )
}
