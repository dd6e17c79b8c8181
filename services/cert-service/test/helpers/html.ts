import { type DefaultTreeAdapterTypes, parse } from 'parse5'

type Node = DefaultTreeAdapterTypes.Node

/** Elements with the names of their attributes; what HTML calls a parse error throws. */
export function shapeOf(html: string): string[] {
  const below = (node: Node): string[] =>
    'childNodes' in node
      ? node.childNodes.flatMap((child) =>
          'tagName' in child
            ? [[child.tagName, ...child.attrs.map(({ name }) => name)].join(' '), ...below(child)]
            : [],
        )
      : []
  return below(
    parse(html, {
      onParseError({ code }) {
        throw new Error(code)
      },
    }),
  )
}
