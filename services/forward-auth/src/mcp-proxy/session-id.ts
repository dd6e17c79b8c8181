import type { Principal, Resource } from '@gatehouse/gate'
import type { FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import { isMacOf, macOf } from '../keys/key-ring.ts'

export const SESSION_ID = 'mcp-session-id'

/**
 * The ID of an MCP session for its client: that of the server with a MAC of person and resource, so that nobody uses the
 * session of somebody else. All clients of a person may use it, since some register themselves anew at each sign-in.
 */
export function sealSessionId(
  id: string,
  resource: Resource,
  principal: Principal,
  { server }: FastifyRequest,
): string {
  return `${id}.${macOf(sessionOf(id, resource, principal), server.keys.login)}`
}

/**
 * The session of a request, as its server names it; undefined if it has none.
 *
 * @throws FwaError FWA_MCP_SESSION_UNKNOWN
 */
export function readSessionId(
  resource: Resource,
  principal: Principal,
  { headers, server }: FastifyRequest,
): string | undefined {
  const { [SESSION_ID]: sealed } = headers
  if (typeof sealed !== 'string') return undefined
  const end = sealed.lastIndexOf('.')
  const [id, mac] = [sealed.slice(0, end), sealed.slice(end + 1)]
  if (isMacOf(mac, sessionOf(id, resource, principal), server.keys.login)) return id
  throw new FwaError('FWA_MCP_SESSION_UNKNOWN', 'the session is unknown, or is of somebody else')
}

function sessionOf(id: string, { url }: Resource, { caller, identity }: Principal) {
  return ['mcp session', identity.portal, url, caller, id]
}
