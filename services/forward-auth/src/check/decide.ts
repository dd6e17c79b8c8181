import type { IncomingHttpHeaders } from 'node:http'
import type { Condition } from '@gatehouse/profile'

/** The result of a check. `preflight` passes without an identity. */
export type Decision = 'allow' | 'preflight' | 'sign-in' | 'no-session' | 'forbidden'

/** A signed-in person, as far as a decision depends on them. */
interface Person {
  readonly isAdmitted: boolean
  meets(condition: Condition): boolean
}

/**
 * Decides whether a request may pass: only a person with a session, whom the portal admits and who
 * meets the condition. A preflight passes without a session where the portal allows it.
 *
 * @param person - undefined if nobody is signed in
 * @param condition - called only if the request may pass otherwise, because compiling one is costly
 * @param kind - called only if nobody is signed in
 */
export function decide(
  portal: { readonly preflight: boolean },
  person: Person | undefined,
  condition: () => Condition | undefined,
  kind: () => RequestKind,
): Decision {
  const refusal = person ? undefined : refuseAnonymous(portal, kind())
  if (refusal) return refusal
  // A condition that cannot be read denies everybody, preflights too.
  const required = condition()
  if (!person) return 'preflight'
  return person.isAdmitted && (!required || person.meets(required)) ? 'allow' : 'forbidden'
}

function refuseAnonymous(
  { preflight }: { readonly preflight: boolean },
  kind: RequestKind,
): 'sign-in' | 'no-session' | undefined {
  if (kind === 'navigation') return 'sign-in'
  return kind === 'preflight' && preflight ? undefined : 'no-session'
}

/** A person who opens a page, a CORS preflight without credentials, or a program. */
export type RequestKind = 'navigation' | 'preflight' | 'api'

/** The kind of a request, by its method and headers. */
export function kindOf(method: string, headers: IncomingHttpHeaders): RequestKind {
  if (method === 'OPTIONS') return isBarePreflight(headers) ? 'preflight' : 'api'
  return isNavigation(method, headers) ? 'navigation' : 'api'
}

/** Whether a browser shows the answer as a page. */
export function isNavigation(method: string, headers: IncomingHttpHeaders): boolean {
  if (headers.upgrade !== undefined) return false
  const mode = headers['sec-fetch-mode']
  if (mode !== undefined) return mode === 'navigate'
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead || headers['x-requested-with'] !== undefined) return false
  return acceptsHtml(headers.accept?.toLowerCase() ?? '')
}

/** RFC 9110 section 12.5.1: a media range with the weight 0 is not acceptable. */
function acceptsHtml(accept: string): boolean {
  if (!accept.includes('text/html')) return false
  return accept.split(',').some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim())
    return type === 'text/html' && !parameters.some((one) => /^q=0(?:\.0*)?$/.test(one))
  })
}

/** With one of these, some apps take an OPTIONS for a DELETE. */
const OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override']

/** Fetch Standard: a preflight names the method to come and never carries credentials. */
function isBarePreflight({ origin, cookie, authorization, ...headers }: IncomingHttpHeaders) {
  const namesMethod = headers['access-control-request-method'] !== undefined
  const isBare = cookie === undefined && authorization === undefined
  return origin !== undefined && namesMethod && isBare && !OVERRIDES.some((name) => name in headers)
}
