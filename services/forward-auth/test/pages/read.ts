import { type DefaultTreeAdapterTypes, parse } from 'parse5'

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

/** Where the links of a page lead. */
export const hrefsIn = (html: string) =>
  named(html, 'a').map((link) => attribute(link, 'href') ?? '')
