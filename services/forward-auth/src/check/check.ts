import type { Condition } from '@gatehouse/profile'
import { FwaError } from '../errors.ts'
import { createAliasGuard } from '../forwarded/aliases.ts'
import { type Check, countOf, READ_HEADERS } from '../forwarded/read.ts'
import type { ForwardedRequest } from '../forwarded/request.ts'
import type { Peer } from '../forwarded/trust.ts'
import type { Portal } from '../portals.ts'
import type { Service } from '../service.ts'
import { findingsAt } from '../session/findings.ts'
import type { Session } from '../session/session.ts'
import { type ConditionReader, createConditionReader } from './condition.ts'
import { type Decision, decide } from './decide.ts'
import type { Dialect } from './dialects.ts'
import { kindOf } from './kind.ts'

/** A check that was decided. */
export interface Checked {
  readonly decision: Decision
  readonly portal: Portal
  readonly forwarded: ForwardedRequest
  /** There whenever somebody is signed in, so with `allow` and `forbidden`. */
  readonly session: Session | undefined
}

type Checking = Pick<Service, 'portals' | 'sites' | 'trust' | 'sessions'>

/** What is made once of a portal. */
interface Gate {
  readonly refuseAliases: (rawHeaders: readonly string[]) => void
  readonly readCondition: ConditionReader
}
const gates = new WeakMap<Portal, Gate>()

/**
 * Decides a check from what its proxy sent, synchronously. Whatever it throws denies.
 *
 * @param policy - the policy that the path of the route names; then the query is not the operator's
 * @throws FwaError FWA_PEER_UNTRUSTED, FWA_PORTAL_UNKNOWN, FWA_HEADER_…, FWA_HOST_…, and those
 * of a ConditionReader
 */
export function check(
  { portals, sites, trust, sessions }: Checking,
  dialect: Dialect,
  portalName: string,
  policy: string | undefined,
  request: Check & { readonly socket: Peer },
): Checked {
  const { headers, rawHeaders, socket } = request
  if (!trust.trusts(socket)) throw untrusted(socket)
  const portal = portals().get(portalName)
  if (!portal) throw new FwaError('FWA_PORTAL_UNKNOWN', 'there is no portal of this name')
  const gate = gateOf(portal)
  gate.refuseAliases(rawHeaders)
  const forwarded = dialect.read(request, sites)
  assertNotOnAuthHost(forwarded, headers['x-forwarded-host'], sites)
  const found = sessions.read(portal, forwarded.site, headers.cookie)
  const session = found && belongsHere(portal, found, trust, request) ? found : undefined
  const condition = () => conditionOf(gate, policy, request)
  const decision = decide(portal, session, condition, () => kindOf(forwarded.method, headers))
  return { decision, portal, forwarded, session }
}

/**
 * A proxy publishes the host of the sign-in pages, where anybody could ask for checks that no proxy
 * makes: with conditions of their own choice, and forwarded headers beside those that the proxy sets.
 */
function assertNotOnAuthHost(
  { authority, isAuthHost }: ForwardedRequest,
  toldHost: string | string[] | undefined,
  sites: Service['sites'],
): void {
  if (!isAuthHost && !(typeof toldHost === 'string' && sites.find(toldHost)?.isAuthHost)) return
  throw new FwaError(
    'FWA_HOST_RESERVED',
    `${isAuthHost ? authority : toldHost} is the host of the sign-in pages, which nothing else is behind`,
  )
}

function gateOf(portal: Portal): Gate {
  const known = gates.get(portal)
  if (known) return known
  const written = portal.headers.map(({ name }) => name)
  const gate: Gate = {
    refuseAliases: createAliasGuard([...READ_HEADERS, ...written, portal.tokenHeader ?? '']),
    readCondition: createConditionReader(portal),
  }
  gates.set(portal, gate)
  return gate
}

/** Envoy appends the query of the client, so that its policy is in the path. */
function conditionOf(
  { readCondition }: Gate,
  policy: string | undefined,
  { url, headers, rawHeaders }: Check,
): Condition | undefined {
  const header = headers['x-forward-auth-if'] as string | undefined
  if (header !== undefined && countOf(rawHeaders, 'x-forward-auth-if') > 1)
    throw new FwaError('FWA_HEADER_INVALID', 'X-Forward-Auth-If was sent more than once')
  if (policy !== undefined) return readCondition(`policy=${encodeURIComponent(policy)}`, header)
  const start = url.indexOf('?')
  return readCondition(start < 0 ? '' : url.slice(start + 1), header)
}

/** Whether the address that a session was made for, if any, is still the client's. */
export function belongsHere(
  portal: Portal,
  session: Session,
  trust: Service['trust'],
  request: Pick<Check, 'headers'> & { readonly socket: Peer },
): boolean {
  const { provider } = findingsAt(portal, session)
  if (provider?.type !== 'seamless') return provider !== undefined
  const { socket, headers } = request
  const clientIp = trust.clientIp(socket, headers['x-forwarded-for'] as string | undefined)
  return clientIp !== undefined && provider.fits(session.profile, clientIp)
}

function untrusted({ remoteAddress = 'unknown' }: Peer): FwaError {
  return new FwaError(
    'FWA_PEER_UNTRUSTED',
    `${remoteAddress} is not a trusted proxy: if it is yours, add "${remoteAddress}" to server.trustedProxies`,
  )
}
