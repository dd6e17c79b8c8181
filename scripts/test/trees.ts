import { globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { type Node, parse } from 'acorn'
import { ROOT } from './markdown.ts'

// biome-ignore lint/suspicious/noExplicitAny: the types of acorn leave out the members of nodes
export type Tree = Node & Readonly<Record<string, any>>

/** The syntax of each file, as the list of its nodes, and its text, in which types are at the same places. */
export function treesOf(pattern: string): readonly (readonly [string, readonly Tree[], string])[] {
  return globSync(pattern, { cwd: ROOT }).map((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8')
    const options = { ecmaVersion: 'latest', sourceType: 'module', locations: true } as const
    return [file, [...nodesOf(parse(stripTypeScriptTypes(text), options) as Tree)], text] as const
  })
}

/** A node and all below it. */
export function* nodesOf(node: Tree): Generator<Tree> {
  if (typeof node.type === 'string') yield node
  for (const child of Object.values(node))
    if (typeof child === 'object' && child !== null && !(child instanceof RegExp))
      yield* nodesOf(child)
}
