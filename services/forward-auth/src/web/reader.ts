import { languageOf } from '@gatehouse/service-kit/pages'
import type { FastifyRequest } from 'fastify'
import type { Reader } from '../pages/pages.ts'
import type { Portal } from '../portal/portals.ts'
import { pageUrl } from '../sites.ts'
import { type Realm, siteOf } from './realm.ts'

/** The reader of a page: their language, and the portal with its images. */
export function readerOf(request: FastifyRequest, realm: Realm): Reader {
  const { portal } = realm
  return { portal, language: languageOf(request), imagesUrl: pageUrl(realm, IMAGES) }
}

/** The images of a portal as an error page names them; undefined if its host is on no domain. */
export function imagesUrlFor(request: FastifyRequest, portal: Portal): string | undefined {
  const site = siteOf(request)
  return site && pageUrl({ portal, site }, IMAGES)
}

const IMAGES = '/images/'
