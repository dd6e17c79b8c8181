import { join } from 'node:path'
import { type AST, RegExpParser } from '@eslint-community/regexpp'
import {
  Chars,
  getConsumedChars,
  isPotentiallyEmpty,
  type ReadonlyFlags,
} from 'regexp-ast-analysis'
import { analyse } from 'scslre'
import { type Tree, treesOf } from './trees.ts'

/** A regular expression in the source. */
export interface Expression {
  /** File and line. */
  readonly at: string
  /** Undefined if it is made of a value that only a run knows. */
  readonly source: string | undefined
  readonly flags: string
}

type CharSet = ReturnType<typeof Chars.word>

/** What a name stands for: undefined if only a run knows. */
type Names = (name: string) => string | undefined

/** Literals, `RegExp(…)` and the patterns of schemas, in all of `src`. */
export function expressionsOf(pattern: string): readonly Expression[] {
  const trees = treesOf(pattern)
  const declared = new Map(trees.map(([file, nodes]) => [file, declarationsOf(nodes)]))
  const namesIn =
    (file: string): Names =>
    (name) => {
      const node = declared.get(file)?.get(name)
      if (!node) return undefined
      if ('init' in node) return textOf(node.init, namesIn(file))
      return namesIn(join(file, '..', node.source))(node.imported)
    }
  return trees.flatMap(([file, nodes]) =>
    nodes.flatMap((node) => {
      const found = expressionOf(node, namesIn(file))
      return found ? [{ at: `${file}:${node.loc?.start.line}`, ...found }] : []
    }),
  )
}

/** A variable with its value, or a name with the file that it comes from. */
type Declaration = { init: Tree } | { source: string; imported: string }

/** The variables of a file and what it imports; without those that it declares more than once. */
function declarationsOf(nodes: readonly Tree[]): ReadonlyMap<string, Declaration> {
  const found = nodes.flatMap(({ type, id, init, source, specifiers }): [string, Declaration][] => {
    if (type === 'VariableDeclarator' && init) return [[id.name, { init }]]
    if (type !== 'ImportDeclaration') return []
    return specifiers.map(({ local, imported }: Tree) => [
      local.name,
      { source: source.value, imported: imported?.name },
    ])
  })
  const times = Map.groupBy(found, ([name]) => name)
  return new Map(found.filter(([name]) => times.get(name)?.length === 1))
}

function expressionOf(node: Tree, names: Names): Omit<Expression, 'at'> | undefined {
  if (node.type === 'Literal' && node.regex)
    return { source: node.regex.pattern, flags: node.regex.flags }
  if (node.type === 'NewExpression' && node.callee.name === 'RegExp')
    return { source: textOf(node.arguments[0], names), flags: node.arguments[1]?.value ?? '' }
  if (node.type === 'Property' && node.key.name === 'pattern' && node.value.type !== 'Identifier')
    return node.value.type.endsWith('FunctionExpression')
      ? undefined
      : { source: textOf(node.value, names), flags: 'u' }
  return undefined
}

/** What a string holds; a number in place of whatever is put into it. */
function textOf(node: Tree, names: Names): string | undefined {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : undefined
  if (node.type === 'Identifier') return names(node.name)
  if (node.type !== 'TemplateLiteral') return undefined
  return node.quasis
    .map(({ value }: { value: { cooked: string } }, i: number) => {
      const put = node.expressions[i]
      return value.cooked + (put ? (textOf(put, names) ?? '9') : '')
    })
    .join('')
}

/** What makes an expression take more than linear time on some input; undefined if nothing does. */
export function slowness({
  source = '',
  flags,
}: Pick<Expression, 'source' | 'flags'>): string | undefined {
  const { reports } = analyse({ source, flags: flags.replace('y', '') }, {})
  const [report] = reports
  const isSticky = flags.includes('y')
  // A sticky expression is tried at one place only.
  if (report && !(isSticky && report.type === 'Move'))
    return report.type === 'Move' ? 'a repetition begins everywhere' : 'repetitions overlap'
  if (isSticky) return undefined
  const parser = new RegExpParser()
  const unicode = flags.includes('u')
  const pattern = parser.parsePattern(source, 0, source.length, { unicode })
  const parsed = parser.parseFlags(flags)
  const run = pattern.alternatives.map((one) => new Beginnings(parsed).slowIn(one, true))
  return run.find((found) => found !== undefined)
}

/**
 * Finds a repetition that takes up other beginnings of the expression and can then fail: `https:\S*end` reads
 * `https:https:https:…` to its end once for each of them.
 */
class Beginnings {
  readonly #flags: ReadonlyFlags
  /** The characters that come before, one set for each element. */
  #before: CharSet[] = []
  /** No beginning has one of these in front. */
  readonly #guards: CharSet[] = []
  #isAnchored = false

  constructor(flags: ReadonlyFlags) {
    this.#flags = flags
  }

  slowIn({ elements }: AST.Alternative, canEnd: boolean): string | undefined {
    for (const [i, element] of elements.entries()) {
      const rest = elements.slice(i + 1)
      const ends = canEnd && rest.every((one) => isPotentiallyEmpty(one, this.#flags))
      const found = this.#slowAt(element, ends)
      if (found) return found
      if (this.#isAnchored) return undefined
    }
    return undefined
  }

  #slowAt(element: AST.Element, ends: boolean): string | undefined {
    if (element.type === 'Assertion') return void this.#assert(element)
    const chars = getConsumedChars(element, this.#flags).chars
    if (element.type === 'Quantifier') {
      if (element.max === Number.POSITIVE_INFINITY && !ends && this.#takesUp(chars))
        return `\`${element.raw}\` takes up other beginnings`
      if (element.element.type === 'Group' || element.element.type === 'CapturingGroup') {
        const found = this.#slowInGroup(element.element, ends && element.max === 1)
        if (found) return found
      }
      if (element.min > 0) this.#before.push(chars)
      return undefined
    }
    if (element.type === 'Group' || element.type === 'CapturingGroup') {
      const found = this.#slowInGroup(element, ends)
      if (found) return found
    }
    this.#before.push(chars)
    return undefined
  }

  #slowInGroup({ alternatives }: AST.Group | AST.CapturingGroup, ends: boolean) {
    const before = this.#before
    const found = alternatives.map((one) => {
      this.#before = [...before]
      return this.slowIn(one, ends)
    })
    this.#before = before
    return found.find((one) => one !== undefined)
  }

  #assert(assertion: AST.Assertion): void {
    if (assertion.kind === 'start' && !this.#flags.multiline) this.#isAnchored = true
    else if (assertion.kind === 'start') this.#before.push(Chars.lineTerminator(this.#flags))
    else if (assertion.kind === 'word') this.#guards.push(Chars.word(this.#flags))
    else if (assertion.kind === 'lookbehind')
      for (const one of assertion.alternatives) {
        const { chars } = getConsumedChars(one, this.#flags)
        ;(assertion.negate ? this.#guards : this.#before).push(chars)
      }
  }

  #takesUp(chars: CharSet): boolean {
    const isGuarded = this.#guards.some((guard) => chars.isSubsetOf(guard))
    return !isGuarded && this.#before.every((each) => !each.isDisjointWith(chars))
  }
}
