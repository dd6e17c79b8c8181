import { createHash } from 'node:crypto'
import type { Page } from '@gatehouse/service-kit/pages'
import { type DefaultTreeAdapterTypes, parse } from 'parse5'
import type { Test } from 'tap'

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

/** Holds a page to valid HTML with one heading, under a policy of its own style sheet and script alone. */
export function holdPage(t: Test, name: string, { html, policy }: Page): void {
  const elements = shapeOf(html)
  for (const element of elements)
    t.notMatch(element, /^(script .*|img|iframe|object)| (on\w+|style)( |$)/, `${name}: ${element}`)
  t.equal(elements.filter((element) => /^h1( |$)/.test(element)).length, 1, name)
  const sourceOf = (text: string) =>
    `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  const [, style = ''] = /<style>(.*)<\/style>/.exec(html) ?? []
  const [, script] = /<script>(.*)<\/script>/s.exec(html) ?? []
  t.equal(script !== undefined, /data-copied|<time /.test(html), `${name}: where it has a use`)
  const run = script === undefined ? '' : `script-src ${sourceOf(script)}; `
  t.equal(
    policy,
    `default-src 'none'; style-src ${sourceOf(style)}; img-src data:; form-action 'self'; ${run}frame-ancestors 'none'; base-uri 'none'`,
    name,
  )
}
