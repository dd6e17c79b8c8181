// What of the repository is a page, in which order, and where a link from a page leads.
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix, relative } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')
/** The address of the repository, if it is known, and what of it is shown. */
const { SOURCE = '', REVISION = 'main' } = process.env

/** Every page, by its path in the repository. */
export const PAGES = [
  'README.md',
  ...globSync('docs/**/*.md', { cwd: ROOT }).sort(),
  'SECURITY.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
].map((file) => file.replaceAll('\\', '/'))

export const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

/** Where the Markdown of a page is on the site. */
export const placeOf = (file: string): string => file.replace(/README\.md$/, 'index.md')

/** How `[text](target)` on a page is shown: as a link to `href`, or as its text alone. */
export interface Target {
  readonly href: string | undefined
  /** The file that has to be on the site for it. */
  readonly file?: string
}

/** Where a link of the page leads on the site; the target is as in the repository. */
export function targetOf(page: string, target: string): Target {
  const [path = '', anchor] = target.split('#')
  if (path === '' || /^[a-z][a-z\d+.-]*:/i.test(path)) return { href: target }
  const file = posix.join(posix.dirname(page), path)
  const rest = anchor === undefined ? '' : `#${anchor}`
  if (PAGES.includes(file)) return { href: `${placeOf(path)}${rest}` }
  if (!existsSync(join(ROOT, file))) throw new Error(`${page}: there is no ${target}`)
  const isFolder = statSync(join(ROOT, file)).isDirectory()
  // What the guides show is on the site; what else a link leads to is only in the repository.
  if (/^docs\//.test(file) && !isFolder) return { href: target, file }
  if (SOURCE !== '')
    return { href: `${SOURCE}/${isFolder ? 'tree' : 'blob'}/${REVISION}/${file}${rest}` }
  return isFolder || file.endsWith('.md') ? { href: undefined } : { href: path, file }
}

const FENCE = /^( *```)[^\n]*\n[\s\S]*?^\1$/gm
const LINK = /(?<!!)\[((?:[^\][]|\[[^\]]*\])*)\]\(([^()\s]+)\)/g

/** The Markdown of a page with its links as they are on the site, and the files that these need. */
export function markdownOf(page: string): { text: string; files: string[] } {
  const files: string[] = []
  const follow = (prose: string) =>
    prose.replace(LINK, (_, text: string, target: string) => {
      const { href, file } = targetOf(page, target)
      if (file !== undefined) files.push(file)
      return href === undefined ? text : `[${text}](${href})`
    })
  const source = read(page)
  let text = ''
  let at = 0
  for (const fence of source.matchAll(FENCE)) {
    text += follow(source.slice(at, fence.index)) + fence[0]
    at = fence.index + fence[0].length
  }
  return { text: text + follow(source.slice(at)), files }
}

/** A page or file that the index names. */
export interface Entry {
  readonly text: string
  /** The path in the repository. */
  readonly file: string
  /** What the index says of it, as plain text. */
  readonly summary: string
  readonly items: readonly Entry[]
}

export interface Section {
  readonly title: string
  readonly entries: readonly Entry[]
}

/** The sections of docs/README.md, in its order: a heading, then a list of links. */
export function readIndex(): Section[] {
  const parts = read('docs/README.md').split(/^## (.+)\n/m)
  const sections: Section[] = []
  for (let n = 1; n < parts.length; n += 2) {
    const items = (parts[n + 1] ?? '').split(/^- /m).slice(1)
    const list = items.map((item) => item.replace(/\n\n[\s\S]*/, ''))
    sections.push({ title: parts[n] ?? '', entries: list.flatMap(entriesOf) })
  }
  return sections
}

/** `[page](page.md): what it is`, where links of the summary are below the page; or links alone. */
function entriesOf(item: string): Entry[] {
  const text = item.replace(/\s+/g, ' ').trim()
  const links = [...text.matchAll(LINK)].flatMap(([, name = '', target = '']) => {
    const file = relative(ROOT, join(ROOT, dirname('docs/README.md'), target))
    return /^\w+:/.test(target) ? [] : [{ text: name, file, summary: '', items: [] }]
  })
  const [first, ...below] = links
  const summary = /^\[[^\]]+\]\([^)]+\):? (.+)$/.exec(text)?.[1]
  if (!first || summary === undefined) return links
  return [{ ...first, summary: plain(summary), items: below }]
}

/** Markdown without its marks. */
export const plain = (text: string): string =>
  text.replace(LINK, '$1').replace(/[`*]/g, '').replace(/\s+/g, ' ').trim()

/** The first paragraph below the first heading. */
export const summaryOf = (page: string): string =>
  plain(
    read(page)
      .split(/\n{2,}/)
      .find((part) => /^[A-Za-z`[]/.test(part)) ?? '',
  )

/** The site for programs, by llmstxt.org. */
export function llmsOf(base: string): string {
  const line = ({ text, file, summary }: Entry) =>
    `- [${text}](${base}${placeOf(file)})${summary === '' ? '' : `: ${summary}`}`
  const sections = readIndex().map(
    ({ title, entries }) =>
      `## ${title}\n\n${entries
        .flatMap((entry) => [entry, ...entry.items])
        .map(line)
        .join('\n')}\n`,
  )
  const start = line({ text: 'README', file: 'README.md', summary: 'what it is', items: [] })
  const policy = line({ text: 'Security policy', file: 'SECURITY.md', summary: '', items: [] })
  const changes = line({ text: 'Changelog', file: 'CHANGELOG.md', summary: '', items: [] })
  return `# Gatehouse\n\n> ${summaryOf('README.md')}\n\n${start}\n${policy}\n${changes}\n\n${sections.join('\n')}`
}
