import { ProblemSchema } from '@gatehouse/service-kit/http'
import { Type } from 'typebox'

const PROBLEMS = {
  400: 'The request or its sign-in is not valid; `code` and `detail` say why.',
  401: 'Nobody is signed in. Open `loginUrl` in a browser to sign in.',
  403: 'Access denied; `code` says whether the account, the host or the caller is the reason.',
  404: 'There is no portal or no provider with this name.',
  413: 'The body is larger than 16 kB, or than `maxBody` of the upstream.',
  415: 'The body is neither a form nor JSON, or is encoded.',
  429: 'This account has signed in too often; try again after `Retry-After`.',
  502: 'The provider rejects this site, or its answer is not valid; the log says why.',
  503: 'The provider or the store of sessions is unavailable, or the service is stopping.',
} as const

const LoginProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    loginUrl: Type.Optional(
      Type.String({ format: 'uri', description: 'Where to sign in, with a browser.' }),
    ),
    clientUrl: Type.Optional(
      Type.String({ description: 'Where the client that asked is told of the error.' }),
    ),
    providerSays: Type.Optional(
      Type.String({ description: 'What the identity provider says about it, in its own words.' }),
    ),
  },
  { description: 'A problem (RFC 9457).' },
)

const PAGE = {
  'text/html': { schema: Type.String({ description: 'A page, for browser navigations.' }) },
}

export type ProblemStatus = keyof typeof PROBLEMS

export function problemAnswers(...statuses: readonly ProblemStatus[]) {
  return Object.fromEntries(statuses.map((status) => [status, problemAnswer(PROBLEMS[status])]))
}

/** An error answer that means something else there, for the documentation of its route. */
export function problemAnswer(description: string) {
  const problem = { 'application/problem+json': { schema: LoginProblemSchema } }
  return { description, content: { ...problem, ...PAGE } }
}

/** Tag of the operations that browsers call for people. The document for programs leaves them out. */
export const PAGES = 'pages'

export function pageAnswer(description: string) {
  return { description, content: PAGE }
}

export function bareAnswer(description: string) {
  return { description, type: 'null' }
}

export const TO_SIGN_IN = bareAnswer('Send the person to `Location` to sign in.')
