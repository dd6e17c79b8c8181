import { type ASTNode, Environment, type ParseError, type ParseResult } from '@marcbachmann/cel-js'
import { LRUCache } from 'lru-cache'
import { ProfileError } from './errors.ts'
import type { Claims, Profile } from './schema.ts'

/** Decides about a person. It never throws: if it fails or its result is not a boolean, it is `false`. */
export type Condition = (profile: Pick<Profile, 'claims'>) => boolean

export type Conditions = ReturnType<typeof createConditions>

/** Compiles conditions, and caches up to `max` of those that were used last. */
export function createConditions({ max = 200 }: { max?: number } = {}) {
  const cache = new LRUCache<string, Condition>({ max, memoMethod: compileCondition })
  return {
    /** @throws ProfileError PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG */
    compile: (source: string): Condition => cache.memo(source),
  }
}

function compileCondition(source: string): Condition {
  const expression = parseCondition(source)
  return ({ claims }) => {
    try {
      subject = claims
      return expression({ claims }) === true
    } catch {
      return false
    }
  }
}

// A variable, since CEL gives functions only their arguments. Evaluation is synchronous and never nested.
let subject: Claims

const HANDLERS: Readonly<Record<string, (...args: never[]) => boolean>> = {
  'Group(string): bool': (group: string) => includes(subject.groups, group),
  'Role(string): bool': (role: string) => includes(subject.roles, role),
  'ClaimEqual(string, dyn): bool': claimEqual,
  'Eq(string, dyn): bool': claimEqual,
  'ClaimContains(string, dyn): bool': claimContains,
  'Cont(string, dyn): bool': claimContains,
  'EmailVerified(): bool': () => subject.email !== undefined && subject.email_verified === true,
}

/** CEL with `claims` and the functions of conditions. */
const language = new Environment({
  limits: { maxAstNodes: 300, maxDepth: 32, maxListElements: 100, maxCallArguments: 2 },
}).registerVariable('claims', 'map')
for (const [signature, handler] of Object.entries(HANDLERS))
  language.registerFunction(signature, handler as () => boolean, { async: false })

function claimEqual(claim: string, expected: unknown): boolean {
  return textOf(subject[claim]) === textOf(expected)
}

/** A claim that is not a list is read as words separated by spaces. */
function claimContains(claim: string, expected: unknown): boolean {
  const value = subject[claim]
  return includes(Array.isArray(value) ? value : textOf(value).match(/\S+/g), textOf(expected))
}

function includes(list: unknown, wanted: string): boolean {
  if (!Array.isArray(list)) return false
  return list.some((item) => typeof item !== 'object' && String(item) === wanted)
}

/** Conditions compare texts. A missing claim is the empty text; a list or an object has none. */
function textOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) throw new TypeError('not a single value')
  return String(value ?? '')
}

const MAX_LENGTH = 1_024
const FUNCTIONS = ['has', ...Object.keys(HANDLERS).map((signature) => signature.split('(', 1)[0])]
const METHODS = ['contains', 'startsWith', 'endsWith', 'size']
const OPERATORS = ['[]', '==', '!=', '<', '<=', '>', '>=', 'in', '&&', '||', '?:', 'list']

/**
 * Parses a condition: CEL limited to comparison, logic, lists and the functions and methods above.
 * The cost of loops, arithmetic and patterns is not bounded by the length of the condition.
 */
function parseCondition(source: string): ParseResult {
  if (source.length > MAX_LENGTH)
    throw new ProfileError(
      'PROFILE_CONDITION_TOO_LONG',
      `the condition has ${source.length} characters, more than ${MAX_LENGTH}`,
    )
  const unprintable = source.search(/[^\P{Cc}\t\r\n]|\p{Cs}/u)
  if (unprintable >= 0)
    throw invalid('unexpected control character or lone surrogate', unprintable + 1)

  const text = toCel(source)
  const expression = parse(text)
  assertOffered(expression.ast, text)
  const { type, error } = expression.check()
  if (error) throw invalid(error.summary, columnOf(error, text), error)
  if (type !== 'bool' && type !== 'dyn') throw invalid(`the result is a ${type}, not a bool`, 1)
  return expression
}

function parse(text: CelText): ParseResult {
  try {
    return language.parse(text.cel)
  } catch (error) {
    const { code, range, summary } = error as ParseError
    const column = columnOf(error as ParseError, text)
    if (code === 'limit_exceeded') throw invalid('too many parts or levels', column, error)
    if (!/^(un)?expected_/.test(code)) throw invalid(summary, column, error)
    const found = text.cel.slice(range?.start, range?.end)
    throw invalid(`unexpected ${found === '' ? 'end' : JSON.stringify(found)}`, column, error)
  }
}

/** Refuses every part of CEL that is not listed, so that a later version of CEL adds nothing. */
function assertOffered(node: ASTNode, text: CelText): void {
  for (const part of partsOf(node, text)) assertOffered(part, text)
}

function partsOf(node: ASTNode, text: CelText): readonly ASTNode[] {
  const refuse = (what: string) => invalid(`${what} is not offered here`, text.columnOf(node.start))
  switch (node.op) {
    case 'value':
      return []
    case 'id':
      if (node.args !== 'claims') throw refuse(`the name ${node.args}`)
      return []
    case '.':
      return [node.args[0]]
    case 'call':
      if (!FUNCTIONS.includes(node.args[0])) throw refuse(`the function ${node.args[0]}`)
      return node.args[1]
    case 'rcall':
      if (!METHODS.includes(node.args[0])) throw refuse(`the method ${node.args[0]}`)
      return [node.args[1], ...node.args[2]]
    case '!_':
      return [node.args]
    default:
      if (!OPERATORS.includes(node.op)) throw refuse(`the operator ${node.op.replace('_', '')}`)
      return node.args as readonly ASTNode[]
  }
}

function columnOf({ range }: Pick<ParseError, 'range'>, text: CelText): number {
  return text.columnOf(range?.start ?? 0)
}

function invalid(what: string, column: number, cause?: unknown): ProfileError {
  const message = `${what.replace(/^./, (letter) => letter.toLowerCase())}, at column ${column}`
  return new ProfileError('PROFILE_CONDITION_INVALID', message, { column, cause })
}

/** A condition in CEL, with positions in the source. */
interface CelText {
  readonly cel: string
  /** The column of the source, counted from 1, of a position in `cel`, counted from 0. */
  columnOf(position: number): number
}

// Matches comments and strings of CEL, and captures back-quoted strings.
const STRINGS =
  /\/\/[^\n]*|"""(?:[^\\]|\\.)*?"""|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`([^`]*)`/gs

/** Turns back-quoted raw strings, which Go has and CEL does not, into CEL strings. */
function toCel(source: string): CelText {
  const growths: { end: number; by: number }[] = []
  let grown = 0
  const cel = source.replace(STRINGS, (written: string, raw: string | undefined, at: number) => {
    if (raw === undefined) return written
    const quoted = JSON.stringify(raw)
    const by = quoted.length - written.length
    growths.push({ end: at + grown + quoted.length, by })
    grown += by
    return quoted
  })
  const growthBefore = (position: number) =>
    growths.reduce((sum, { end, by }) => (position >= end ? sum + by : sum), 0)
  return { cel, columnOf: (position) => position - growthBefore(position) + 1 }
}
