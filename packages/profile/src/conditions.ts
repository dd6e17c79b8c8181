import { type ASTNode, Environment, type ParseError, type ParseResult } from '@marcbachmann/cel-js'
import { assertSome, partsOf as membershipParts, type Part } from './allow.ts'
import { ProfileError } from './errors.ts'
import type { Allow, Claims, Profile } from './schema.ts'

/** The subject of a condition: a person by their claims, or a program. A profile is a person. */
export interface Subject {
  /** The claims of a person; a program has none. */
  readonly claims: Claims
  /** How and when the person has authenticated during the session, as `acr` and `auth_time`, besides what `claims` say. */
  readonly authentications?: readonly Claims[]
  /** Default: a person with a session. */
  readonly caller?: ConditionCaller
  /** The variable `mcp` of conditions. Default: it is not known what is called. */
  readonly mcp?: McpCall | undefined
}

/** A call of the Model Context Protocol that is known for certain. */
export interface McpCall {
  /** The method, such as `tools/call`. */
  readonly method: string
  /** The name of a tool or prompt, the URI of a resource, or the ID of a task; absent if the method has none. */
  readonly name?: string
  /**
   * What the tool or prompt is given, `{}` if nothing; absent if that is not known. An integer that a double cannot hold
   * is a bigint.
   */
  readonly arguments?: Readonly<Record<string, unknown>> | typeof ANY_ARGUMENTS
}

/** Arguments that are still open: a condition that they decide holds, since it may hold with some. */
export const ANY_ARGUMENTS = Symbol('any arguments')

/** The variable `caller` of conditions. */
export interface ConditionCaller {
  /**
   * The way the caller authenticates: a person with a `session`, an `agent` with a token that the person has
   * given it here, a program with an API key or a token of another issuer.
   */
  readonly method: 'session' | 'agent' | 'psk' | 'jwt'
  readonly scopes: readonly string[]
  /** The claims of the token of a program; otherwise empty. */
  readonly claims: Claims
}

/** A compiled condition. Its methods never throw: what fails, or is not a boolean, does not hold. */
export interface Condition {
  readonly source: string
  /** The texts that it names, such as groups. */
  readonly texts: readonly string[]
  /** Whether it asks what a request calls, so that its result differs from request to request. */
  readonly readsMcp: boolean
  /** Whether it asks for arguments of a tool, which only the body of a request has. */
  readonly readsArguments: boolean
  holds(subject: Subject): boolean
  /** The first part, as parts are joined by `&&`, that does not hold; undefined if all do. */
  refusingClause(subject: Subject): string | undefined
  /**
   * The scopes with which the condition would hold, with those that the subject has; empty if no scope
   * can make it hold.
   */
  wantedScopes(subject: Subject): readonly string[]
  /**
   * The scopes that an agent needs, whoever it acts for, if that person meets what is asked of people; empty if that
   * cannot be told.
   */
  scopesOfAgents(mcp: McpCall | undefined): readonly string[]
}

/**
 * Compiles a condition.
 *
 * @param context - a `person`, or a `request`, which may have the variable `mcp`
 * @throws ProfileError PROFILE_CONDITION_INVALID
 */
export function compileCondition(
  source: string,
  context: 'person' | 'request' = 'person',
): Condition {
  const { expression, text, texts, readsMcp, names } = parseCondition(source, context)
  let clauses: readonly Clause[] | undefined
  return {
    source,
    texts,
    readsMcp,
    readsArguments: names.size > 0,
    holds: (subject) => evaluate(expression, subject, names),
    refusingClause(subject) {
      clauses ??= readClauses({ source, expression }, text)
      return clauses.find((clause) => !evaluate(clause.expression, subject, names))?.source
    },
    wantedScopes: (subject) => wantedScopes(() => evaluate(expression, subject, names)),
    scopesOfAgents(mcp) {
      const agent = { claims: {}, caller: AGENT, mcp }
      isAnybody = true
      try {
        return wantedScopes(() => evaluate(expression, agent, names))
      } finally {
        isAnybody = false
      }
    },
  }
}

const PERSON: ConditionCaller = { method: 'session', scopes: [], claims: {} }
const AGENT: ConditionCaller = { method: 'agent', scopes: [], claims: {} }

// Variables, since CEL gives functions only their arguments. Evaluation is synchronous and never nested.
let claims: Claims
let caller: ConditionCaller
/** The variable `mcp` of an unknown call: reading it throws, so that neither a test of it nor its opposite holds. */
const UNKNOWN_MCP = Object.create(null, {
  method: { enumerable: true, get: refuseMcp },
  tool: { enumerable: true, get: refuseMcp },
  resource: { enumerable: true, get: refuseMcp },
  arguments: { enumerable: true, get: refuseMcp },
})

interface Restriction extends Pick<Part, 'texts'> {
  (profile: Profile): boolean
  /** The part that does not hold, and what is missing; undefined if all hold. */
  refusingClause(profile: Profile): string | undefined
}

/**
 * Compiles an allow rule. All restrictions of an object must hold; only a verified e-mail address
 * counts.
 * @throws ProfileError PROFILE_ALLOW_INVALID, PROFILE_CONDITION_INVALID
 */
export function compileAllow(allow: Allow): Restriction {
  if (allow === 'anyone') return restriction([])
  if (typeof allow === 'string') return restriction([compileCondition(allow)])
  const { condition, ...membership } = allow
  const parts = membershipParts(membership)
  if (condition !== undefined) parts.unshift(compileCondition(condition))
  return restriction(assertSome(parts))
}

function restriction(parts: readonly Part[]): Restriction {
  const refusing = (profile: Profile) => parts.find(({ holds }) => holds(profile) !== true)
  return Object.assign((profile: Profile) => refusing(profile) === undefined, {
    texts: parts.flatMap(({ texts }) => texts),
    refusingClause: (profile: Profile) => refusing(profile)?.refusingClause(profile),
  })
}

function refuseMcp(): never {
  throw new TypeError('it is not known what the request calls')
}

function mcpOf({ mcp }: Subject, names: ArgumentNames) {
  if (!mcp) return UNKNOWN_MCP
  const { method, name } = mcp
  const call = { method, arguments: argumentsOf(mcp, names) }
  if (method === 'tools/call') return { ...call, tool: name }
  if (method !== 'resources/read') return call
  return {
    ...call,
    get resource() {
      return isPlainUri(name) ? name : refuseMcp()
    },
  }
}

/** Reading an argument throws if its value is not known, or not to all servers alike: lenient ones take `"true"` for true. */
function argumentsOf({ method, arguments: input }: McpCall, names: ArgumentNames) {
  const values = method === 'tools/call' && typeof input === 'object' ? input : undefined
  const readable = Object.create(null)
  for (const [name, types] of names) {
    // As Go compares names: U+017F is `s`, and U+212A is `k`.
    const spelling = RegExp(`^${name}$`, 'iu')
    const spellings = values ? Object.keys(values).filter((key) => spelling.test(key)) : [name]
    const argument = spellings.length === 1 ? values?.[name] : undefined
    const isFit = isScalar(argument) && (types.size === 0 || types.has(typeof argument))
    const get = () => (isFit ? argument : refuseMcp())
    if (spellings.length > 0) Object.defineProperty(readable, name, { get })
  }
  return readable
}

function isScalar(argument: unknown): boolean {
  if (Number.isInteger(argument)) return Number.isSafeInteger(argument)
  return ['string', 'boolean'].includes(typeof argument) || Number.isFinite(argument)
}

/** Whether every server reads a URI alike: those of SDKs normalize it (`new URL`), and some decode it then. */
function isPlainUri(uri = ''): boolean {
  const href = URL.parse(uri)?.href
  return (href === uri || href === `${uri}/`) && !/%(?:2[5ef]|5c)|#/i.test(uri)
}

/** While scopes are assumed to be granted: those that the condition asks for. */
let assumedScopes: Set<string> | undefined
/** While the person is assumed to meet what is asked of people. */
let isAnybody = false

function evaluate(expression: ParseResult, subject: Subject, names: ArgumentNames): boolean {
  try {
    claims = subject.claims
    caller = subject.caller ?? PERSON
    return expression({ claims, caller, mcp: mcpOf(subject, names) }) === true
  } catch {
    return names.size > 0 && subject.mcp?.arguments === ANY_ARGUMENTS
  }
}

function wantedScopes(holds: () => boolean): readonly string[] {
  assumedScopes = new Set()
  try {
    return holds() ? [...assumedScopes] : []
  } finally {
    assumedScopes = undefined
  }
}

function hasScope(scope: string): boolean {
  assumedScopes?.add(scope)
  return assumedScopes !== undefined || caller.scopes.includes(scope)
}

interface Clause {
  readonly source: string
  readonly expression: ParseResult
}

/** The parts of a condition, or the whole where the text of a part is not known. */
function readClauses(whole: Clause, text: CelText): readonly Clause[] {
  try {
    return clausesOf(whole.expression.ast, text)
  } catch {
    // The ranges of cel-js leave out parentheses at the ends of a part, as in `(a) || (b)`.
    return [whole]
  }
}

/** The parts that `&&` joins at the top, each compiled on its own. */
function clausesOf(node: ASTNode, text: CelText): readonly Clause[] {
  if (node.op === '&&') return node.args.flatMap((part) => clausesOf(part, text))
  const cel = text.cel.slice(node.start, node.end)
  return [{ source: text.sourceOf(node), expression: language.parse(cel) }]
}

/** Makes a test of a person, or of the one that an agent acts for; it is false for a program. */
const ofPerson =
  <Args extends unknown[]>(holds: (...args: Args) => boolean) =>
  (...args: Args): boolean =>
    isAnybody || ((caller.method === 'session' || caller.method === 'agent') && holds(...args))

const HANDLERS: Readonly<Record<string, (...args: never[]) => boolean>> = {
  'Group(string): bool': ofPerson((group: string) => includes(claims.groups, group)),
  'Role(string): bool': ofPerson((role: string) => includes(claims.roles, role)),
  'ClaimEqual(string, dyn): bool': ofPerson(claimEqual),
  'Eq(string, dyn): bool': ofPerson(claimEqual),
  'ClaimContains(string, dyn): bool': ofPerson(claimContains),
  'Cont(string, dyn): bool': ofPerson(claimContains),
  'EmailVerified(): bool': ofPerson(
    () => claims.email !== undefined && claims.email_verified === true,
  ),
  'Scope(string): bool': hasScope,
}

const VARIABLES = ['claims', 'caller', 'mcp']
const MCP_MEMBERS = Object.keys(UNKNOWN_MCP)

/** CEL with the variables and functions of conditions. */
const language = new Environment({
  limits: { maxAstNodes: 300, maxDepth: 32, maxListElements: 100, maxCallArguments: 2 },
})
for (const name of VARIABLES) language.registerVariable(name, 'map')
for (const [signature, handler] of Object.entries(HANDLERS))
  language.registerFunction(signature, handler as () => boolean, { async: false })

function claimEqual(claim: string, expected: unknown): boolean {
  return textOf(claims[claim]) === textOf(expected)
}

/** A claim that is not a list is read as words separated by spaces. */
function claimContains(claim: string, expected: unknown): boolean {
  const value = claims[claim]
  return includes(Array.isArray(value) ? value : textOf(value).match(/\S+/g), textOf(expected))
}

function includes(list: unknown, expected: string): boolean {
  if (!Array.isArray(list)) return false
  return list.some((item) => typeof item !== 'object' && String(item) === expected)
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
function parseCondition(source: string, context: 'person' | 'request') {
  if (source.length > MAX_LENGTH)
    throw new ProfileError(
      'PROFILE_CONDITION_INVALID',
      `the condition has ${source.length} characters, more than ${MAX_LENGTH}`,
    )
  const unprintable = source.search(/[^\P{Cc}\t\r\n]|\p{Cs}/u)
  if (unprintable >= 0)
    throw invalid('unexpected control character or lone surrogate', unprintable + 1)

  const text = toCel(source)
  const expression = parse(text)
  const nodes = assertOffered(expression.ast, text)
  const mcp = nodes.find((node) => isMcp(node) || argumentOf(node) !== undefined)
  if (mcp && context !== 'request')
    throw invalid(
      'mcp is known in policies and conditions of a route only',
      text.columnOf(mcp.start),
    )
  const { type, error } = expression.check()
  if (error) throw invalid(error.summary, columnOf(error, text), error)
  if (type !== 'bool' && type !== 'dyn') throw invalid(`the result is a ${type}, not a bool`, 1)
  const texts = nodes.flatMap(({ op, args }) =>
    op === 'value' && typeof args === 'string' ? [args] : [],
  )
  return { expression, text, texts, readsMcp: mcp !== undefined, names: argumentsIn(nodes) }
}

/** Whether a node reads a member of `mcp`; there is no other way to read the variable. */
function isMcp({ op, args }: ASTNode): boolean {
  return op === '.' && args[0].op === 'id' && args[0].args === 'mcp'
}

/** The name of the argument that a node reads; undefined if it reads none. */
function argumentOf(node: ASTNode): string | undefined {
  if (node.op !== '.' || node.args[0].op !== '.' || !isMcp(node.args[0])) return undefined
  return node.args[0].args[1] === 'arguments' ? node.args[1] : undefined
}

/** The names of arguments, and of which types they may be: those of the literals that they are compared with, if any. */
type ArgumentNames = ReadonlyMap<string, ReadonlySet<string>>

function argumentsIn(nodes: readonly ASTNode[]): ArgumentNames {
  const names = new Map<string, Set<string>>()
  for (const name of nodes.flatMap((node) => argumentOf(node) ?? [])) names.set(name, new Set())
  for (const { op, args } of nodes) {
    if (op !== '==' && op !== '!=' && op !== 'in') continue
    const [name] = args.flatMap((side) => argumentOf(side) ?? [])
    const literals = args.flatMap((side) => (side.op === 'list' ? side.args : [side]))
    for (const literal of literals)
      if (name !== undefined && literal.op === 'value') names.get(name)?.add(typeOf(literal.args))
  }
  return names
}

/** CEL has integers as bigints. */
function typeOf(literal: unknown): string {
  return typeof literal === 'bigint' ? 'number' : typeof literal
}

function parse(text: CelText): ParseResult {
  try {
    return language.parse(text.cel)
  } catch (error) {
    const { code, range, summary } = error as ParseError
    const column = columnOf(error as ParseError, text)
    if (code === 'limit_exceeded') throw invalid('too many parts or levels', column, error)
    if (!/^(un)?expected_/.test(code)) throw invalid(summary, column, error)
    const token = text.cel.slice(range?.start, range?.end)
    throw invalid(`unexpected ${token === '' ? 'end' : JSON.stringify(token)}`, column, error)
  }
}

/** Refuses every part of CEL that is not listed, so that a later version of CEL adds nothing. Returns all parts. */
function assertOffered(node: ASTNode, text: CelText): ASTNode[] {
  return [node, ...partsOf(node, text).flatMap((part) => assertOffered(part, text))]
}

function partsOf(node: ASTNode, text: CelText): readonly ASTNode[] {
  const refuse = (what: string) => invalid(`${what} is not offered here`, text.columnOf(node.start))
  switch (node.op) {
    case 'value':
      return []
    case 'id':
      if (!VARIABLES.includes(node.args)) throw refuse(`the name ${node.args}`)
      if (node.args === 'mcp') throw refuse('mcp without a member')
      return []
    case '.':
      if (!isMcp(node)) return argumentOf(node) === undefined ? [node.args[0]] : []
      if (node.args[1] === 'arguments') throw refuse('mcp.arguments without a name')
      if (!MCP_MEMBERS.includes(node.args[1])) throw refuse(`the member mcp.${node.args[1]}`)
      return []
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
  /** The part of the source that a part of `cel` was made of. */
  sourceOf(part: { readonly start: number; readonly end: number }): string
}

// Matches comments and strings of CEL, and captures back-quoted strings. A string that does not end is taken
// as far as it goes, so that nothing is read twice.
const STRINGS =
  /\/\/[^\n]*|"""(?:[^"\\]|\\.|"(?!""))*(?:""")?|'''(?:[^'\\]|\\.|'(?!''))*(?:''')?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`([^`]*)`/gs

/** Turns back-quoted raw strings, which Go has and CEL does not, into CEL strings. */
function toCel(source: string): CelText {
  const growths: { end: number; growth: number }[] = []
  let grown = 0
  const cel = source.replace(
    STRINGS,
    (match: string, raw: string | undefined, position: number) => {
      if (raw === undefined) return match
      const quoted = JSON.stringify(raw)
      const growth = quoted.length - match.length
      growths.push({ end: position + grown + quoted.length, growth })
      grown += growth
      return quoted
    },
  )
  const growthBefore = (position: number) =>
    growths.reduce((sum, { end, growth }) => (position >= end ? sum + growth : sum), 0)
  const columnOf = (position: number) => position - growthBefore(position) + 1
  return {
    cel,
    columnOf,
    sourceOf: ({ start, end }) => source.slice(columnOf(start) - 1, columnOf(end) - 1),
  }
}
