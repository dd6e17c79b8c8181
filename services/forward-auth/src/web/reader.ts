import { languageOf, type Page, sendPage } from '@gatehouse/service-kit/pages'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Reader } from '../pages/pages.ts'
import type { Portal } from '../portal/portals.ts'
import { pageUrl } from '../sites.ts'
import { type Realm, siteOf } from './realm.ts'

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
  const reader: Reader = { portal, language, imagesUrl: pageUrl(realm, IMAGES) }
  return sendPage(reply, status, page({ ...view, ...reader } as unknown as View))
}

/** The images of a portal as an error page names them; undefined if its host is on no domain. */
export function imagesUrlFor(request: FastifyRequest, portal: Portal): string | undefined {
  const site = siteOf(request)
  return site && pageUrl({ portal, site }, IMAGES)
}

const IMAGES = '/images/'
