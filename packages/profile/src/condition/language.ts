import { Environment, type ParseResult } from '@marcbachmann/cel-js'
import type { Claims } from '../schema.ts'

// CEL hands a function nothing but its arguments. Evaluation is synchronous and never nested.
let subject: Claims

const FUNCTIONS: Readonly<Record<string, (...args: never[]) => boolean>> = {
  'Group(string): bool': (group: string) => includes(subject.groups, group),
  'Role(string): bool': (role: string) => includes(subject.roles, role),
  'ClaimEqual(string, dyn): bool': claimEqual,
  'Eq(string, dyn): bool': claimEqual,
  'ClaimContains(string, dyn): bool': claimContains,
  'Cont(string, dyn): bool': claimContains,
  'EmailVerified(): bool': () => subject.email !== undefined && subject.email_verified === true,
}

/** CEL with the functions of conditions and `claims`. */
export const language = new Environment({
  limits: { maxAstNodes: 300, maxDepth: 32, maxListElements: 100, maxCallArguments: 2 },
}).registerVariable('claims', 'map')
for (const [signature, handler] of Object.entries(FUNCTIONS))
  language.registerFunction(signature, handler as () => boolean, { async: false })

/** Runs an expression of the language on somebody's claims. It throws what CEL and {@link Claims} throw. */
export function evaluate(expression: ParseResult, claims: Claims): unknown {
  subject = claims
  return expression({ claims })
}

function claimEqual(claim: string, expected: unknown): boolean {
  return textOf(subject[claim]) === textOf(expected)
}

/** A claim that is not a list is taken as words between spaces. */
function claimContains(claim: string, expected: unknown): boolean {
  const value = subject[claim]
  return includes(Array.isArray(value) ? value : textOf(value).match(/\S+/g), textOf(expected))
}

function includes(list: unknown, wanted: string): boolean {
  if (!Array.isArray(list)) return false
  return list.some((item) => typeof item !== 'object' && String(item) === wanted)
}

/** Conditions compare texts: a missing claim is the empty one, and a list or an object is none. */
function textOf(value: unknown): string {
  if (typeof value === 'object' && value !== null) throw new TypeError('not a single value')
  return String(value ?? '')
}
