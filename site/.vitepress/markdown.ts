// How Markdown becomes HTML: as GitHub shows it, readable without scripts, and without a style in any element.
import { join, relative } from 'node:path'
import { renderMermaidSVG } from 'beautiful-mermaid'
import { createCssVariablesTheme } from 'shiki'
import type { MarkdownEnv, MarkdownOptions, MarkdownRenderer } from 'vitepress'
import { linkNouns, markNouns } from './glossary.ts'
import { ROOT, targetOf } from './tree.ts'

/** What `#` of a link is followed by: as GitHub makes it of headings. */
export const slugOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-')

export const markdown: MarkdownOptions = {
  anchor: { slugify: slugOf },
  theme: createCssVariablesTheme({ name: 'css-variables', variablePrefix: '--code-' }),
  // Close enough: comments, strings and braces.
  languageAlias: { caddyfile: 'nginx', haproxy: 'apache' },
  config(md) {
    md.core.ruler.push('nouns', ({ tokens, env }) => {
      linkNouns(pageOf(env), tokens)
      markNouns(pageOf(env), tokens)
    })
    md.core.ruler.push('links', followLinks)
    md.core.ruler.push('corners', emptyCorners)
    wrapTables(md)
    drawDiagrams(md)
    const fence = md.renderer.rules.fence
    if (fence) md.renderer.rules.fence = (...given) => withClasses(fence(...given))
    // Nothing of a page is a template.
    const { render } = md
    md.render = (source, env) => {
      const html = `<div v-pre>${render.call(md, source, env)}</div>`
      if (NOT_SEARCHED.includes(pageOf(env)))
        env.frontmatter = { ...env.frontmatter, search: false }
      return html
    }
  },
}

/** Pages for whoever audits, writes or upgrades Gatehouse: they name everything, and answer no question. */
const NOT_SEARCHED = ['docs/threats.md', 'CHANGELOG.md', 'CONTRIBUTING.md']

/** The path of a page from the root. */
const pageOf = ({ realPath, relativePath }: MarkdownEnv): string =>
  relative(ROOT, realPath ?? join(ROOT, relativePath))

type Rule = Parameters<MarkdownRenderer['core']['ruler']['push']>[1]

/** Links lead to pages of the site, to the repository, or to files beside the page; what is nowhere is text. */
const followLinks: Rule = ({ tokens, env }) => {
  const page = pageOf(env)
  for (const { children } of tokens)
    for (const [at, token] of (children ?? []).entries()) {
      if (token.type !== 'link_open') continue
      const { href, file } = targetOf(page, decodeURI(token.attrGet('href') ?? ''))
      if (href === undefined) {
        const end = children?.slice(at).find(({ type }) => type === 'link_close')
        for (const one of [token, end]) if (one) Object.assign(one, { tag: 'span', attrs: null })
      } else token.attrSet('href', href)
      // Without this, it would be taken for a page.
      if (file !== undefined) token.attrSet('target', '_self')
    }
}

/** A heading without a text heads nothing. */
const emptyCorners: Rule = ({ tokens }) => {
  for (const [at, { type }] of tokens.entries())
    if (type === 'th_open' && tokens[at + 1]?.content === '')
      for (const one of [tokens[at], tokens[at + 2]]) if (one) one.tag = 'td'
}

/** A wide table scrolls by itself, also by the keyboard. */
function wrapTables(md: MarkdownRenderer): void {
  md.renderer.rules.table_open = () =>
    '<div class="wide" role="group" aria-label="Table" tabindex="0"><table>\n'
  md.renderer.rules.table_close = () => '</table></div>\n'
}

function drawDiagrams(md: MarkdownRenderer): void {
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, at, ...rest) => {
    const { info = '', content = '' } = tokens[at] ?? {}
    if (info.trim() === 'mermaid') return diagram(content)
    return fence?.(tokens, at, ...rest) ?? ''
  }
}

const SPACING = { padding: 8, layerSpacing: 24, nodeSpacing: 20 }

/** The drawing, in the colours of the page. What it shows is also said in words. */
export function diagram(source: string): string {
  // From top to bottom it fits on more screens.
  const svg = renderMermaidSVG(source.replace(/^flowchart LR/, 'flowchart TD'), SPACING)
    .replace(/<style>[\s\S]*?<\/style>/g, '')
    .replace(/ style="[^"]*"/g, '')
    .replace('<svg ', `<svg role="img" aria-label="${escaped(wordsOf(source))}" `)
  return `<div class="wide diagram" role="group" aria-label="Diagram" tabindex="0">${svg}</div>\n`
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')

/** `a["A"] -- "asks" --> b["B"]` as `A: asks B`, one sentence for each arrow. */
function wordsOf(source: string): string {
  const names = new Map(
    [...source.matchAll(/(\w+)[[({]+"([^"]+)"/g)].map(([, id = '', name = '']) => [id, name]),
  )
  const bare = source.replace(/(\w+)[[({]+"[^"]+"[\])}]+/g, '$1')
  const arrows = bare.matchAll(/(\w+)\s+--(?:\s+"([^"]+)"\s+--)?[->]\s+(\w+)/g)
  return [...arrows]
    .map(([, from = '', label, to = '']) => {
      const [a, b] = [names.get(from) ?? from, names.get(to) ?? to]
      return label === undefined ? `${a} to ${b}.` : `${a} to ${b}: ${label}.`
    })
    .join(' ')
}

/** Classes in place of styles, so that the content security policy allows none. */
function withClasses(html: string): string {
  return html
    .replace(/ style="color:var\(--code-token-([\w-]+)\)"/g, ' class="t-$1"')
    .replace(/ style="[^"]*"/g, '')
}
