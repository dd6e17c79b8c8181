import { parseOrigin } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import { belongsHere } from '../check/check.ts'
import { FwaError } from '../errors.ts'
import type { Portal } from '../portals.ts'
import type { SeamlessProvider } from '../providers/provider.ts'
import type { Service } from '../service.ts'
import type { Session } from '../session/session.ts'
import type { Site } from '../sites.ts'

/** Where a page of a portal was asked for. */
export interface Place {
  readonly portal: Portal
  readonly site: Site
}

/**
 * The portal and the site of a request to sign in or out. It has to be sent to the auth host of a
 * site; scheme and port are those of the configuration, whatever the request says.
 *
 * @throws FwaError FWA_PORTAL_UNKNOWN, FWA_HOST_UNKNOWN
 */
export function authPlaceOf(service: Service, request: FastifyRequest): Place {
  const host = hostOf(service, request)
  const site = service.sites.all.find(({ authOrigin }) => isHostOf(authOrigin, host))
  if (!site) throw unknownHost(host)
  return { portal: portalOf(service, request), site }
}

/**
 * The portal and the site of a request for what any host of a cookie domain may show.
 *
 * @throws FwaError FWA_PORTAL_UNKNOWN, FWA_HOST_UNKNOWN
 */
export function placeOf(service: Service, request: FastifyRequest): Place {
  const host = hostOf(service, request)
  const found = service.sites.find(host)
  if (!found) throw unknownHost(host)
  return { portal: portalOf(service, request), site: found.site }
}

/** @throws FwaError FWA_PORTAL_UNKNOWN */
export function portalOf(service: Service, { params }: FastifyRequest): Portal {
  const portal = service.portals().get((params as { portal: string }).portal)
  if (!portal) throw new FwaError('FWA_PORTAL_UNKNOWN', 'there is no portal of this name')
  return portal
}

/** The session of the person who asks. */
export function sessionOf(
  { sessions, trust }: Service,
  { portal, site }: Place,
  { raw }: FastifyRequest,
): Session | undefined {
  const session = sessions.read(portal, site, raw.headers.cookie)
  return session && belongsHere(portal, session, trust, raw) ? session : undefined
}

/**
 * Who is at the address that a request began at.
 *
 * @throws FwaError FWA_PROVIDER_UNREACHABLE
 */
export async function identify(
  { trust }: Service,
  provider: SeamlessProvider,
  { raw }: FastifyRequest,
): Promise<Profile | undefined> {
  const forwardedFor = raw.headers['x-forwarded-for'] as string | undefined
  const clientIp = trust.clientIp(raw.socket, forwardedFor)
  return clientIp === undefined ? undefined : provider.identify(clientIp)
}

function hostOf({ trust }: Service, { raw: { headers, socket } }: FastifyRequest): string {
  const forwarded = trust.trusts(socket) ? headers['x-forwarded-host'] : undefined
  return String(forwarded ?? headers.host ?? '')
}

function isHostOf(origin: string, host: string): boolean {
  const scheme = origin.slice(0, origin.indexOf('//'))
  const asked = `${scheme}//${host}`
  return asked === origin || parseOrigin(asked) === origin
}

function unknownHost(host: string): FwaError {
  const told = JSON.stringify(host.slice(0, 100))
  return new FwaError('FWA_HOST_UNKNOWN', `${told} is not where this portal is`)
}
