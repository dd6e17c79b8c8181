import { parseOrigin } from '@gatehouse/net'
import type { FastifyRequest } from 'fastify'
import { FwaError } from '../errors.ts'
import { type Portal, portalOf } from '../portal/portals.ts'
import type { Site } from '../sites.ts'

/** A portal at one of the sign-in hosts: a protection space (RFC 9110 section 11.5), with sessions of its own. */
export interface Realm {
  readonly portal: Portal
  readonly site: Site
}

/**
 * The portal and site of a page that belongs to the sign-in host. Scheme and port are those of the
 * configuration, whatever the request says.
 *
 * @throws FwaError FWA_HOST_UNKNOWN, FWA_NOT_FOUND
 */
export function signInSiteOf(request: FastifyRequest): Realm {
  const site = request.server.sites.list.find(({ authOrigin }) => isSentTo(authOrigin, request))
  if (!site) throw unknownHost(request)
  return { portal: portalOf(request), site }
}

/**
 * The portal and site of a page that every host of a cookie domain may show.
 *
 * @throws FwaError FWA_HOST_UNKNOWN, FWA_NOT_FOUND
 */
export function realmOf(request: FastifyRequest): Realm {
  const site = siteOf(request)
  if (!site) throw unknownHost(request)
  return { portal: portalOf(request), site }
}

/** The site of the host that a request was sent to; undefined if it is on no domain. */
export function siteOf(request: FastifyRequest): Site | undefined {
  const { sites } = request.server
  const isSignInHost = ({ authOrigin }: Site) => isSentTo(authOrigin, request)
  return sites.find(hostOf(request))?.site ?? sites.list.find(isSignInHost)
}

/** Whether a request was sent to an origin, whatever it says of the scheme. */
export function isSentTo(origin: string, request: FastifyRequest): boolean {
  const scheme = origin.slice(0, origin.indexOf('//'))
  const requested = `${scheme}//${hostOf(request)}`
  return requested === origin || parseOrigin(requested) === origin
}

/** The host and port of an app that a request was sent to. No scheme but https has another port without naming it. */
export function appAuthorityOf(request: FastifyRequest): string {
  return request.server.sites.find(hostOf(request))?.authority.replace(/:443$/, '') ?? ''
}

function hostOf({ raw: { headers, socket }, server }: FastifyRequest): string {
  const forwarded = server.trust.trusts(socket) ? headers['x-forwarded-host'] : undefined
  return String(forwarded ?? headers.host ?? '')
}

function unknownHost(request: FastifyRequest): FwaError {
  const quoted = JSON.stringify(hostOf(request).slice(0, 100))
  return new FwaError('FWA_HOST_UNKNOWN', `${quoted} is not the host of this portal`)
}
