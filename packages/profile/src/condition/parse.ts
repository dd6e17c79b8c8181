import type { ASTNode, ParseError, ParseResult } from '@marcbachmann/cel-js'
import { ProfileError } from '../errors.ts'
import { language } from './language.ts'
import { type CelText, toCel } from './raw-strings.ts'

const MAX_LENGTH = 1_024
const FUNCTIONS = 'Group, Role, ClaimEqual, Eq, ClaimContains, Cont, EmailVerified, has'.split(', ')
const METHODS = 'contains, startsWith, endsWith, size'.split(', ')

/**
 * Parses a condition. Of CEL it takes comparison, logic, lists and the functions and methods above:
 * what loops, calculates, or matches patterns has costs that the length does not bound.
 *
 * @throws ProfileError PROFILE_CONDITION_INVALID, PROFILE_CONDITION_TOO_LONG
 */
export function parseCondition(source: string): ParseResult {
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

/** Refuses every part of CEL that is not listed: what a later version of CEL adds is not offered. */
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
    case '[]':
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
    case 'in':
    case '&&':
    case '||':
    case '?:':
    case 'list':
      return node.args
    default:
      throw refuse(`the operator ${node.op.replace('_', '')}`)
  }
}

function columnOf({ range }: Pick<ParseError, 'range'>, text: CelText): number {
  return text.columnOf(range?.start ?? 0)
}

function invalid(what: string, column: number, cause?: unknown): ProfileError {
  const message = `${what.replace(/^./, (letter) => letter.toLowerCase())}, at column ${column}`
  return new ProfileError('PROFILE_CONDITION_INVALID', message, {
    column,
    cause,
  })
}
