import { listAll } from '@gatehouse/cert-store/listing'
import type { CertificateRecord, Listed } from '@gatehouse/cert-store/port'
import { hasCode } from '@gatehouse/net'
import type { FastifyInstance } from 'fastify'
import { findByNames, isOf, readPermitted } from '../lookup/certificates.ts'
import { cursorOf } from '../lookup/positions.ts'
import { mayAll } from '../policy/authorize.ts'
import type { Visitor } from '../visitors/visitors.ts'
import type { Neighbours } from './controls.ts'
import type { SearchQuery } from './search.ts'
import type { Place, View } from './view.ts'

const PAGE = 50

export interface ListedPage extends Neighbours {
  readonly records: readonly Listed[]
}

export async function readListed(
  app: FastifyInstance,
  visitor: Visitor,
  { place, ...view }: View,
  query: SearchQuery | undefined,
): Promise<ListedPage> {
  if (query?.fingerprint) return readByFingerprint(app, visitor, query.fingerprint)
  const { order, state, issuer } = view
  const listing = { order, state, issuer, search: query?.search, now: app.clock.now() }
  const read = (page?: Place) => readPermitted(app, visitor, PAGE, listing, listAll, page)
  const page = await read(place).catch((error) => {
    if (!place || !hasCode(error, 'CERT_NOT_FOUND')) throw error
  })
  if (!page || !place) return page ?? read()
  const { records, next } = page
  const [first] = records
  if (!place.isBackwards)
    return { records, next, previous: first ? cursorOf(first, order) : place.cursor }
  // The first page is a full one, whatever was added before it since.
  if (next === undefined) return read()
  return { records: records.toReversed(), previous: next, next: first && cursorOf(first, order) }
}

async function readByFingerprint(app: FastifyInstance, visitor: Visitor, sha256: string) {
  const record = await app.store.findIssued(sha256)
  return { records: record?.isCurrent && mayAll(app, visitor, 'read', record) ? [record] : [] }
}

/** Finds a certificate that is valid for the whole name that was searched, one of its own before a wildcard. */
export function findCovering(
  app: FastifyInstance,
  visitor: Visitor,
  { name, search: { wildcard } }: SearchQuery,
): Promise<CertificateRecord | undefined> {
  const names = [name?.text, wildcard].filter((text) => text !== undefined)
  return findByNames(app, visitor, names, isOf('server'))
}
