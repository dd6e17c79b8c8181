import type { IncomingHttpHeaders } from 'node:http'
import type { Condition } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import type { Provider } from '../providers/provider.ts'
import type { Session } from '../session/session.ts'
import { type CheckHeaders, checkHeaders } from './headers.ts'

/**
 * A person with a session at a portal. Sessions and portals do not change, so each result is computed
 * once; an error is not kept.
 */
export class Visitor {
  readonly session: Session
  readonly portal: Portal
  readonly #provider: Provider
  #isAdmitted: boolean | undefined
  #condition: Condition | undefined
  #isMet = false
  #headers: CheckHeaders | undefined

  constructor(session: Session, portal: Portal, provider: Provider) {
    this.session = session
    this.portal = portal
    this.#provider = provider
  }

  /** Whether the session may be used from an address; only some providers bind it to one. */
  isAllowedAt(clientIp: () => string | undefined): boolean {
    if (this.#provider.type !== 'seamless') return true
    const address = clientIp()
    return address !== undefined && this.#provider.fits(this.session.profile, address)
  }

  get isAdmitted(): boolean {
    this.#isAdmitted ??= this.portal.admits(this.session.profile) === true
    return this.#isAdmitted
  }

  /** Whether the person meets a condition. The result of the last condition is kept. */
  meets(condition: Condition): boolean {
    if (this.#condition !== condition) {
      this.#isMet = condition(this.session.profile) === true
      this.#condition = condition
    }
    return this.#isMet
  }

  get headers(): CheckHeaders {
    this.#headers ??= checkHeaders(this.portal, this.session)
    return this.#headers
  }
}

/** The result of a check. `preflight` passes without an identity. */
export type Decision = 'allow' | 'preflight' | 'sign-in' | 'no-session' | 'forbidden'

/**
 * Decides whether a request may pass: only a person with a session, whom the portal admits and who
 * meets the condition. A preflight passes without a session where the portal allows it.
 *
 * @param visitor - undefined if nobody is signed in
 * @param condition - called only if the request may pass otherwise, because compiling one is costly
 * @param kind - called only if nobody is signed in
 */
export function decide(
  portal: { readonly preflight: boolean },
  visitor: Pick<Visitor, 'isAdmitted' | 'meets'> | undefined,
  condition: () => Condition | undefined,
  kind: () => RequestKind,
): Decision {
  const refusal = visitor ? undefined : refuseAnonymous(portal, kind())
  if (refusal) return refusal
  // A condition that cannot be read denies everybody, preflights too.
  const required = condition()
  if (!visitor) return 'preflight'
  return visitor.isAdmitted && (!required || visitor.meets(required)) ? 'allow' : 'forbidden'
}

function refuseAnonymous(
  { preflight }: { readonly preflight: boolean },
  kind: RequestKind,
): 'sign-in' | 'no-session' | undefined {
  if (kind === 'navigation') return 'sign-in'
  return kind === 'preflight' && preflight ? undefined : 'no-session'
}

export type RequestKind = 'navigation' | 'preflight' | 'api'

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
