import { Type } from 'typebox'
import { Check } from 'typebox/schema'
import type { AcmeError } from '../errors.ts'
import { type Identifier, IdentifierSchema } from '../identifier.ts'
import { type Answer, readJson, readUrl } from './answer.ts'
import type { Call } from './call.ts'
import { toError } from './problem.ts'

/** What the CA wants to see of one name (RFC 8555 section 7.1.4). */
export interface Authorization {
  readonly status: string
  /** Without `*.`. */
  readonly identifier: Identifier
  readonly wildcard: boolean
  readonly challenges: readonly Challenge[]
  readonly retryAfterMs?: number | undefined
}

export interface Challenge {
  readonly type: string
  readonly url: URL
  readonly status: string
  readonly token: string
  readonly error?: AcmeError
}

export function readAuthorization(url: URL): Call<Authorization> {
  return { to: url, process: toAuthorization }
}

/** Tells the CA that it may look (RFC 8555 section 7.5.1). */
export function answerChallenge(url: URL): Call<void> {
  return { to: url, payload: () => ({}), process: () => {} }
}

const AuthorizationSchema = Type.Object({
  status: Type.String({ pattern: '^[a-z]{1,20}$' }),
  identifier: IdentifierSchema,
  wildcard: Type.Optional(Type.Boolean()),
  challenges: Type.Array(Type.Unknown(), { maxItems: 20 }),
})

// A token becomes part of a path, a record and an argument, so nothing but base64url is one.
const ChallengeSchema = Type.Object({
  type: Type.String({ pattern: '^[a-z0-9-]{1,50}$' }),
  url: Type.String(),
  status: Type.String(),
  token: Type.String({ pattern: '^[A-Za-z0-9_-]{1,256}$' }),
  error: Type.Optional(Type.Unknown()),
})

function toAuthorization(answer: Answer): Authorization {
  const {
    status,
    identifier,
    wildcard = false,
    challenges,
  } = readJson(answer, AuthorizationSchema, 'an authorization')
  return {
    status,
    identifier,
    wildcard,
    challenges: challenges.flatMap((challenge) => toChallenge(challenge, answer)),
    retryAfterMs: answer.retryAfterMs,
  }
}

/** Nothing for a challenge of a kind that has no token: it is not one of ours. */
function toChallenge(value: unknown, answer: Answer): Challenge | [] {
  if (!Check(ChallengeSchema, value)) return []
  const { type, url, status, token, error } = value
  return {
    type,
    url: readUrl(url, answer),
    status,
    token,
    ...(error !== undefined && { error: toError(error) }),
  }
}
