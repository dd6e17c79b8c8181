import { type Language, writeTime } from '@gatehouse/service-kit/pages'
import { type DefaultTreeAdapterTypes, parse, parseFragment } from 'parse5'

type Node = DefaultTreeAdapterTypes.Node
export type Element = DefaultTreeAdapterTypes.Element

/** The elements of a document; what HTML calls a parse error throws. */
export function elements(html: string): Element[] {
  const onParseError = ({ code, startLine, startCol }: { code: string } & Position) => {
    throw new Error(`${code} at ${startLine}:${startCol}`)
  }
  return below(parse(html, { onParseError }))
}

interface Position {
  readonly startLine: number
  readonly startCol: number
}

export function below(node: Node): Element[] {
  if (!('childNodes' in node)) return []
  return node.childNodes.flatMap((child) =>
    'tagName' in child ? [child, ...below(child)] : below(child),
  )
}

export const attribute = ({ attrs }: Element, name: string) =>
  attrs.find((each) => each.name === name)?.value

export const named = (html: string, name: string): Element[] =>
  elements(html).filter(({ tagName }) => tagName === name)

export function text(node: Node): string {
  if ('value' in node) return node.value
  return 'childNodes' in node ? node.childNodes.map(text).join('') : ''
}

/** A time as a page without a script shows it. */
export const timeText = (language: Language, time: number) =>
  text(parseFragment(String(writeTime(language, time)))).replace(/\s/g, ' ')

/** Where the links of a page lead, other than those to the account and out that pages have below. */
export const hrefsIn = (html: string) =>
  below(named(html, 'main')[0]!).flatMap((each) =>
    each.tagName === 'a' ? [attribute(each, 'href') ?? ''] : [],
  )

/** Where the links below a page lead. */
export const waysIn = (html: string) =>
  named(html, 'footer').flatMap((footer) =>
    below(footer).flatMap((each) => attribute(each, 'href') ?? []),
  )
