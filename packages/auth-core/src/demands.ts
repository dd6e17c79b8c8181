import { Type } from 'typebox'
import { METHODS, type Method } from './caller.ts'
import { AuthError } from './errors.ts'
import { SCOPE_PATTERN } from './options.ts'
import { faultsOf, listFaults } from './settings.ts'

/** The demands of a route on its caller. */
export interface CallerDemand {
  /** Scopes that the caller must have, all of them. An API key without `scopes` has every scope. */
  readonly scopes?: readonly string[]
  /** Methods that this route accepts. Default: every method that is configured. */
  readonly methods?: readonly Method[]
  /**
   * Lets a request without credentials pass without a caller: `request.optionalCaller` is null then.
   * Wrong credentials are refused all the same. Default: false.
   */
  readonly optional?: boolean
}

/** The demands of a route on the person who opens it. */
export interface PersonDemand {
  /**
   * Lets a request without an assertion pass without a person: `request.optionalPerson` is null then, as
   * it is if `assertion` is not configured. A wrong assertion is refused all the same. Default: false.
   */
  readonly optional?: boolean
}

const closed = { additionalProperties: false }
const optional = Type.Optional(Type.Boolean())
const scopes = Type.Optional(Type.Array(Type.String({ pattern: SCOPE_PATTERN })))
const methods = Type.Optional(Type.Array(Type.Enum([...METHODS]), { minItems: 1 }))

const DEMANDS = {
  requireCaller: {
    schema: Type.Object({ scopes, methods, optional }, closed),
    takes: `scopes (a list), methods (of ${METHODS.join(', ')}) and optional (a boolean)`,
  },
  requirePerson: { schema: Type.Object({ optional }, closed), takes: 'optional (a boolean)' },
}

/**
 * Refuses a demand that is not understood, which would admit everybody. A guard that is used without a
 * call gets the request in its place.
 *
 * @throws AuthError AUTH_OPTIONS_INVALID
 */
export function checkDemand(guard: keyof typeof DEMANDS, demand: unknown): void {
  const { schema, takes } = DEMANDS[guard]
  const isPlain = Object.getPrototypeOf(Object(demand)) === Object.prototype
  const message = `is no plain object; without a demand write app.${guard}()`
  const faults = isPlain ? faultsOf(schema, demand) : [{ path: '', message }]
  if (faults.length > 0)
    throw new AuthError('AUTH_OPTIONS_INVALID', {
      message: `${guard}() makes a guard, and takes an object with ${takes}: ${listFaults(faults)}`,
    })
}
