import { listAll, positionOf } from '@gatehouse/cert-store/listing'
import type { CertificateRecord, Listed, Position } from '@gatehouse/cert-store/port'
import type { FastifyInstance } from 'fastify'
import { findValid, isOf, readPermitted } from '../lookup/certificates.ts'
import { mayAll } from '../policy/authorize.ts'
import type { Visitor } from '../visitors/visitors.ts'
import type { SearchQuery } from './search.ts'
import type { View } from './view.ts'

const PAGE = 50

/** A page of what a visitor may read, and where the pages before and after it begin. */
export interface ListedPage {
  readonly shown: readonly Listed[]
  readonly previous?: Position | undefined
  readonly next?: Position | undefined
}

export async function readListed(
  app: FastifyInstance,
  visitor: Visitor,
  view: View,
  query: SearchQuery | undefined,
): Promise<ListedPage> {
  if (query?.fingerprint) return readByFingerprint(app, visitor, query.fingerprint)
  const { order, state, issuer, place } = view
  const listing = { order, state, issuer, search: query?.search, now: app.clock.now() }
  const at = (listed: Listed) => positionOf(listed, order)
  const read = async (start: Position | undefined, isBackwards: boolean) => {
    const { records, next } = await readPermitted(app, visitor, PAGE + 1, {
      start,
      list: ({ after, limit }) => listAll(app.store, listing, { from: after, isBackwards, limit }),
      cursorOf: at,
    })
    const shown = records.slice(0, PAGE)
    return { shown, beyond: records.length > PAGE ? shown.map(at).at(-1) : next }
  }
  const onwards = async (start?: Position): Promise<ListedPage> => {
    const { shown, beyond } = await read(start, false)
    return { shown, previous: start && (shown.map(at)[0] ?? start), next: beyond }
  }
  if (!place?.isBackwards) return onwards(place?.position)
  const { shown, beyond } = await read(place.position, true)
  // The first page is a full one, whatever was added before it since.
  if (!beyond) return onwards()
  return { shown: shown.toReversed(), previous: beyond, next: shown.map(at)[0] ?? place.position }
}

async function readByFingerprint(
  app: FastifyInstance,
  visitor: Visitor,
  sha256: string,
): Promise<ListedPage> {
  const found = await app.store.findByFingerprint(sha256)
  return { shown: found && mayAll(app, visitor, 'read', found) ? [found] : [] }
}

/** Finds a certificate that is valid for the whole name that was searched, one of its own before a wildcard. */
export async function findCovering(
  app: FastifyInstance,
  visitor: Visitor,
  { name, search: { wildcard } }: SearchQuery,
): Promise<CertificateRecord | undefined> {
  for (const text of [name?.text, wildcard]) {
    if (text === undefined) continue
    const found = await findValid(
      app,
      visitor,
      (skip) => app.store.findByName(text, skip),
      isOf('server'),
    )
    if (found) return found
  }
  return undefined
}
