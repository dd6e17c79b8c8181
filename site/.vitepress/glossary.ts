// Pages link the first use of a noun of Gatehouse to what docs/glossary.md says of it.
import { posix } from 'node:path'
import type { MarkdownRenderer } from 'vitepress'
import { PAGES, plain, read, readIndex } from './tree.ts'

type Rule = Parameters<MarkdownRenderer['core']['ruler']['push']>[1]
type Token = Parameters<Rule>[0]['tokens'][number]

const GLOSSARY = 'docs/glossary.md'

/** The nouns that people meet on pages, as they are written there. Others are of the code, or everyday words. */
const NOUNS: Readonly<Record<string, RegExp>> = {
  agent: /\bagents?\b/i,
  assertion: /\bassertions?\b/i,
  caller: /\bcallers?\b/i,
  check: /(?<=\b(?:a|an|each|the) )checks?\b/i,
  lineage: /\blineages?\b/i,
  policy: /(?<!\b(?:enforces (?:the|such)|network|security) )\bpolic(?:y|ies)\b/i,
  portal: /\bportals?\b/i,
  replica: /\breplicas?\b/i,
  rule: /\brules?\b/i,
  'sign-in host': /\bsign-in hosts?\b/i,
  ticket: /\btickets?\b/i,
}

const filesOf = (section: string): string[] =>
  readIndex()
    .filter(({ title }) => title === section)
    .flatMap(({ entries }) => entries.flatMap((entry) => [entry, ...entry.items]))
    .map(({ file }) => file)

/** Elsewhere a rule is one of cert-service, of Prometheus or of Kubernetes. */
const ABOUT_RULES = [
  'docs/homelab.md',
  ...filesOf('Login'),
  ...filesOf('Behind your proxy').filter((file) => !file.includes('kubernetes')),
]

/** Pages for people; those for developers and auditors have the nouns of the code too. */
const LINKED = PAGES.filter(
  (file) =>
    file.startsWith('docs/') &&
    !file.startsWith('docs/reference/') &&
    ![GLOSSARY, 'docs/README.md', 'docs/threats.md', ...filesOf('Develop')].includes(file),
)

/** What the glossary says of each noun. */
const MEANINGS = new Map(
  [...read(GLOSSARY).matchAll(/^\| ([a-z -]+) \| ([^|]+) \|/gm)].map(
    ([, noun = '', meaning = '']) => [noun, plain(meaning)],
  ),
)

export const anchorOfNoun = (noun: string): string => noun.replaceAll(' ', '-')

/** On the glossary, the cell of each noun is where links to it lead. */
export function markNouns(page: string, tokens: readonly Token[]): void {
  if (page !== GLOSSARY) return
  for (const [index, { type, content }] of tokens.entries())
    if (type === 'inline' && MEANINGS.has(content) && tokens[index - 2]?.type === 'tr_open')
      tokens[index - 1]?.attrSet('id', anchorOfNoun(content))
}

/** Links the first use of each noun in the text of a page, if it is no heading, code or link. */
export function linkNouns(page: string, tokens: readonly Token[]): void {
  if (!LINKED.includes(page)) return
  const nouns = new Map(Object.entries(NOUNS))
  if (!ABOUT_RULES.includes(page)) nouns.delete('rule')
  for (const [index, token] of tokens.entries()) {
    if (token.type !== 'inline' || /^(heading|th)_open$/.test(tokens[index - 1]?.type ?? ''))
      continue
    let depth = 0
    token.children = (token.children ?? []).flatMap((child) => {
      if (child.type === 'link_open') depth += 1
      if (child.type === 'link_close') depth -= 1
      return child.type === 'text' && depth === 0 ? partsOf(child, page, nouns) : [child]
    })
  }
}

/** A text with its first nouns as links; they are taken out of those to come. */
function partsOf(text: Token, page: string, nouns: Map<string, RegExp>): Token[] {
  const [first] = [...nouns]
    .flatMap(([noun, pattern]) => {
      const match = pattern.exec(text.content)
      return match ? [{ noun, index: match.index, words: match[0] }] : []
    })
    .sort((one, other) => one.index - other.index || other.words.length - one.words.length)
  if (!first) return [text]
  nouns.delete(first.noun)
  const end = first.index + first.words.length
  return [
    textLike(text, text.content.slice(0, first.index)),
    ...linkTo(first.noun, textLike(text, first.words), page),
    ...partsOf(textLike(text, text.content.slice(end)), page, nouns),
  ]
}

const textLike = (text: Token, content: string): Token =>
  Object.assign(Object.create(Object.getPrototypeOf(text)), text, { content })

function linkTo(noun: string, words: Token, page: string): Token[] {
  const tokenOf = (type: string, nesting: number): Token =>
    Object.assign(textLike(words, ''), { type, tag: 'a', nesting, attrs: null })
  const open = tokenOf('link_open', 1)
  const file = posix.relative(posix.dirname(page), GLOSSARY)
  open.attrs = [
    ['href', `${file}#${anchorOfNoun(noun)}`],
    ['class', 'noun'],
    ['title', MEANINGS.get(noun) ?? ''],
  ]
  return [open, words, tokenOf('link_close', -1)]
}
