import type { FastifyRequest } from 'fastify'
import { chooseLanguage, type Language } from '../pages/languages/index.ts'
import type { Reader } from '../pages/pages.ts'
import type { Portal } from '../portals.ts'
import { portalUrl, type Site } from '../sites.ts'
import { type PortalSite, siteOf } from './portal-site.ts'

/** The language in which a person gets a page. */
export function languageOf({ headers }: FastifyRequest): Language {
  return chooseLanguage(headers['accept-language'])
}

/** The reader of a page: their language, and the portal with its images. */
export function readerOf(request: FastifyRequest, { portal, site }: PortalSite): Reader {
  return { portal, language: languageOf(request), imagesUrl: imagesUrl(site, portal) }
}

/** The images of a portal as an error page names them; undefined if its host is on no domain. */
export function imagesUrlFor(request: FastifyRequest, portal: Portal): string | undefined {
  const site = siteOf(request)
  return site && imagesUrl(site, portal)
}

function imagesUrl(site: Site, portal: Portal): string {
  return portalUrl(site, portal, '/images/')
}
