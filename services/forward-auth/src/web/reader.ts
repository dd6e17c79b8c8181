import { languageOf, type Page, sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Reader } from '../pages/pages.ts'
import { issuerOf } from '../sites.ts'
import { isSentTo, type Realm, siteOf } from './realm.ts'

type OwnMembers<View> = View extends Reader ? Omit<View, keyof Reader> : never

/** Sends a page of a portal, in the language of its reader. */
export function sendToReader<View extends Reader>(
  reply: FastifyReply,
  realm: Realm,
  status: number,
  page: (view: View) => Page,
  view: OwnMembers<View>,
): FastifyReply {
  const { portal } = realm
  const language = languageOf(reply.request)
  const reader: Reader = { portal, language, portalUrl: issuerOf(realm) }
  return sendPage(reply, status, page({ ...view, ...reader } as unknown as View))
}

/** The portal of an error page, and its URL, as far as the request tells: what is at no portal is at the first one. */
export function portalFor(request: FastifyRequest) {
  const { portal: name = '' } = (request.params ?? {}) as { portal?: string }
  const { portals } = request.server
  const site = siteOf(request)
  const [first] = site && isSentTo(site.authOrigin, request) ? portals.values() : []
  const portal = portals.get(name) ?? first
  return { portal, portalUrl: portal && site && issuerOf({ portal, site }) }
}
