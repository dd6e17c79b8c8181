import { AuthError } from '@gatehouse/auth-core'
import type { Principal, Resource } from '@gatehouse/gate'
import type { McpCall } from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import { untrusted } from '../check/check.ts'
import { type Check, refuseCaller } from '../check/check-answers.ts'
import { FwaError } from '../errors.ts'
import { Agent } from '../oauth/agent.ts'
import { portalOf } from '../portal/portals.ts'
import { isSentTo } from '../web/realm.ts'
import { LISTING } from './message.ts'

const PREFIX = '/mcp-proxy'

/** The resource that a trusted proxy sends a request on for: by its host, and its path to the letter. */
export function resourceOf(request: FastifyRequest): Resource {
  const { server, raw } = request
  if (!server.trust.trusts(raw.socket)) throw untrusted(raw.socket)
  const { resources } = portalOf(request).gate.programs
  const [requestPath = ''] = request.url.split('?')
  const resourcePath = requestPath.slice(requestPath.indexOf(PREFIX) + PREFIX.length)
  const resource = resources.find(
    ({ upstream, path, origin }) => upstream && path === resourcePath && isSentTo(origin, request),
  )
  if (resource) return resource
  throw new FwaError('FWA_NOT_FOUND', 'there is no resource with an `upstream` at this URL')
}

interface DecisionContext {
  /** The principal. Default: the sender of the request. */
  readonly principal?: Principal | undefined
  /** Reads the call, once it is known who sends it. */
  call(principal: Principal, forwarded: Check['forwarded']): McpCall | Promise<McpCall>
}

/**
 * Decides about a request by the rules of its portal, as a check does, but by what its body calls.
 *
 * @throws AuthError and FwaError as a check does
 */
export async function decide(
  resource: Resource,
  request: FastifyRequest,
  { principal, call }: DecisionContext,
): Promise<Check> {
  const { server, raw } = request
  const portal = portalOf(request)
  const forwarded = portal.gate.readForResource(resource, raw, server.sites).withCall(LISTING)
  const { site } = forwarded
  if (forwarded.isAuthHost) throw new FwaError('FWA_NOT_FOUND', 'no app is at this host')
  const context = {
    ...(!principal && { request }),
    // A session of a browser is of no use here.
    person: () => principal,
    call: (sender: Principal) => call(sender, forwarded),
    clientIp: () => server.trust.clientIp(raw),
    now: server.clock.now(),
  }
  try {
    const result = await portal.gate.check(forwarded, context, '')
    return { portal, site, ...result, providerToken: undefined }
  } catch (error) {
    if (error instanceof AuthError)
      throw refuseCaller(error, { portal, forwarded, resource }, request)
    throw error
  }
}

/** Decides anew about a call that has begun; undefined if its sender may not send anything any more. */
export async function decideAgain(
  check: Check,
  request: FastifyRequest,
): Promise<Check | undefined> {
  const principal = await renew(check, request)
  const call = check.forwarded.mcp ?? LISTING
  return principal && decide(resourceOf(request), request, { principal, call: () => call })
}

async function renew({ principal, portal }: Check, request: FastifyRequest) {
  const { server } = request
  if (principal instanceof Agent) return server.agents.renewed(principal, request)
  // Another configuration may have another key, or trust the issuer of a token no more.
  if (!principal || portalOf(request).gate !== portal.gate) return undefined
  const { exp } = principal.subject.caller?.claims ?? {}
  return exp === undefined || Number(exp) * 1_000 > server.clock.now() ? principal : undefined
}

/** IDs of the sessions that somebody depends on: those of an agent and its person. */
export function sessionsOf(principal: Principal): readonly string[] {
  if (!(principal instanceof Agent)) return []
  const { claims, visitor } = principal
  return [claims.sid, visitor.session.sid]
}
