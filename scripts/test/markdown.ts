import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { anchorOf } from '../reference/anchors.ts'

export const ROOT = join(import.meta.dirname, '../..')

/** A fenced block of a document. */
export interface Block {
  readonly file: string
  readonly line: number
  /** What follows the fence: the language, and what else is said of the block. */
  readonly info: string
  /** Without the indentation of its fence. */
  readonly text: string
}

/** A document, by its path from the root. */
export interface Document {
  readonly file: string
  readonly blocks: readonly Block[]
  /** Its lines without those of blocks, which are empty. */
  readonly prose: readonly string[]
}

const FENCE = /^( *)```(.*)$/
const LINK = /(?<!!)\[(?:[^\][]|\[[^\]]*\])*\]\(([^()\s]+)\)|<(https?:[^>\s]+)>/g
const CODE = /(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)/g

/** The documents that match a pattern, those of dependencies left out. */
export function readDocuments(pattern: string): Document[] {
  return globSync(pattern, { cwd: ROOT, exclude: ['**/node_modules/**', '**/dist/**'] })
    .sort()
    .map(readDocument)
}

export function readDocument(file: string): Document {
  return parseDocument(file, readFileSync(join(ROOT, file), 'utf8'))
}

/** The text of a block of code, by what its fence says. */
export const blockOf = (file: string, info: string): string =>
  readDocument(file).blocks.find((block) => block.info === info)?.text ?? ''

export function parseDocument(file: string, text: string): Document {
  const blocks: Block[] = []
  const prose: string[] = []
  let open: { indent: number; info: string; line: number; lines: string[] } | undefined
  for (const [index, line] of text.split('\n').entries()) {
    const fence = FENCE.exec(line)
    prose.push(open || fence ? '' : line)
    if (open && fence?.[2] === '') {
      const { info, lines } = open
      blocks.push({ file, line: open.line, info, text: `${lines.join('\n')}\n` })
      open = undefined
    } else if (open) open.lines.push(line.slice(open.indent))
    else if (fence)
      open = { indent: fence[1]?.length ?? 0, info: fence[2] ?? '', line: index + 1, lines: [] }
  }
  if (open) throw new Error(`${file}:${open.line}: the block is not closed`)
  return { file, blocks, prose }
}

/** Where its links lead. */
export function linksOf({ prose }: Document): string[] {
  const text = prose.join('\n').replaceAll(CODE, '')
  return [...text.matchAll(LINK)].map(([, target = '', url = '']) => target || url)
}

/** What it writes as code between words. */
export function codeOf(text: string): string[] {
  return [...text.matchAll(CODE)].map(([, , code = '']) => code)
}

/** What `#` of a link may be followed by: as GitHub makes it of headings. */
export function anchorsOf({ prose }: Document): string[] {
  const seen = new Map<string, number>()
  return prose.flatMap((line) => {
    const [, heading] = /^#+ (.+)$/.exec(line) ?? []
    if (heading === undefined) return []
    const slug = anchorOf(heading)
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    return [count === 0 ? slug : `${slug}-${count}`]
  })
}

/** The sentences of its paragraphs and items, and the rows of its tables, without headings. */
export function sentencesOf({ prose }: Document): string[] {
  const units: string[] = []
  let isOpen = false
  for (const [index, line] of prose.entries()) {
    const text = line.trim()
    const isHeading = text.startsWith('#') || isRule(text) || isRule(prose[index + 1])
    const isTold = text !== '' && !isHeading && !/^\*\*[^*]+\*\*$/.test(text)
    if (isTold && isOpen && !ITEM.test(text)) units.push(`${units.pop()} ${text}`)
    else if (isTold) units.push(text)
    isOpen = isTold
  }
  return units.flatMap((unit) => {
    const text = unit.replace(ITEM, '')
    return unit.startsWith('|') ? [text] : text.split(END)
  })
}

const ITEM = /^(?:- (?:\[ \] )?|\d+\. |\| )/
/** Between sentences; names of programs begin in lower case. */
const END = /(?<=\.(?:\*\*)?) (?=[A-Z[`]|nginx|cert-service|forward-auth)/

/** The cells of the rows of its tables, without their headings. */
export function tableRows(lines: readonly string[]): string[][] {
  return lines
    .filter((line, index) => line.startsWith('|') && !isRule(line) && !isRule(lines[index + 1]))
    .map((line) =>
      line
        .slice(1, line.lastIndexOf('|'))
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim().replaceAll('\\|', '|')),
    )
}

function isRule(line = ''): boolean {
  return /^\|[ :|-]+\|$/.test(line)
}
