import { ProblemSchema } from '@gatehouse/service-kit'
import { Type } from 'typebox'

const PROBLEMS = {
  400: 'The request, or the sign-in that it belongs to, cannot be taken; `code` and `detail` say why.',
  401: 'Nobody is signed in; `loginUrl` is where to do so in a browser.',
  403: 'Refused; `code` says whether for the account, the host or who asks.',
  404: 'There is no portal, or no provider, of this name.',
  413: 'The body is larger than 16 kB.',
  415: 'The body is neither a form nor JSON, or is encoded.',
  429: 'This account has signed in too often; `Retry-After` says when it may again.',
  502: 'The provider refuses this site, or gives an answer that cannot be believed; the log says why.',
  503: 'The provider or the list of ended sessions cannot be used now, or the service is stopping.',
} as const

/** A problem that may say where to sign in. */
const LoginProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    loginUrl: Type.Optional(
      Type.String({ format: 'uri', description: 'Where to sign in, with a browser.' }),
    ),
  },
  { description: 'A problem (RFC 9457).' },
)

const PAGE = {
  'text/html': {
    schema: Type.String({ description: 'A page, for who navigates with a browser.' }),
  },
}

/** The error answers of a route, for its documentation. */
export function problemAnswers(...statuses: readonly (keyof typeof PROBLEMS)[]) {
  return Object.fromEntries(statuses.map((status) => [status, problemAnswer(PROBLEMS[status])]))
}

/** An error answer that means something else there, for the documentation of its route. */
export function problemAnswer(description: string) {
  const problem = { 'application/problem+json': { schema: LoginProblemSchema } }
  return { description, content: { ...problem, ...PAGE } }
}

/** A page, for the documentation of its route. */
export function pageAnswer(description: string) {
  return { description, content: PAGE }
}

/** An answer without a body, for the documentation of its route. */
export function bareAnswer(description: string) {
  return { description, type: 'null' }
}

/** A redirect to where people sign in, for the documentation of its route. */
export const TO_SIGN_IN = bareAnswer('Send the person to `Location` to sign in.')
