import { isOrder, listAll, positionOf } from '@gatehouse/cert-store/listing'
import type { CertificateRecord, Listed, Listing, Position } from '@gatehouse/cert-store/port'
import type { FastifyInstance } from 'fastify'
import type { Question } from '../pages/search.ts'
import type { View } from '../pages/view.ts'
import { mayAll, type Principal } from '../policy.ts'
import { findValid, readPermitted } from './lookup.ts'
import type { Visitor } from './visitors.ts'

const PAGE = 50

/** What a visitor may read, and where the pages before and after it begin. */
export interface ListedPage {
  readonly shown: readonly Listed[]
  readonly previous?: Position | undefined
  readonly next?: Position | undefined
}

export async function readListed(
  app: FastifyInstance,
  visitor: Visitor,
  view: View,
  question: Question | undefined,
): Promise<ListedPage> {
  if (question?.fingerprint) return readByFingerprint(app, visitor, question.fingerprint)
  const { order, state, issuer, place } = view
  const listing = { order, state, issuer, search: question?.search, now: app.clock.now() }
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

/** A certificate that is valid for the whole name that was asked for, by itself before a wildcard. */
export async function findCovering(
  app: FastifyInstance,
  visitor: Visitor,
  { name, search: { wildcard } }: Question,
): Promise<CertificateRecord | undefined> {
  for (const text of [name?.text, wildcard]) {
    if (text === undefined) continue
    const found = await findValid(app, visitor, (skip) => app.store.findByName(text, skip))
    if (found) return found
  }
  return undefined
}

/** What fails, the most urgent first: what ends soonest, then without a certificate what is tried soonest. */
export async function readFailing(
  app: FastifyInstance,
  caller: Principal,
  limit: number,
  about: Pick<Listing, 'issuer' | 'search'>,
  start?: Position,
) {
  const listing = { ...about, order: 'expiry', state: 'failing', now: app.clock.now() } as const
  const { records, next } = await readPermitted(app, caller, limit, {
    start,
    list: ({ after, limit }) => listAll(app.store, listing, { from: after, limit }),
    cursorOf: (listed) => positionOf(listed, 'expiry'),
  })
  const all = await withOrders(app, records)
  // One may have been issued meanwhile.
  const failing = all.flatMap(({ record, order }) => (order ? [{ record, order }] : []))
  return { failing, next }
}

/** The latest order of each that is listed, with its certificate if there is one. */
export async function withOrders({ store }: FastifyInstance, all: readonly Listed[]) {
  const certificates = all.filter((listed) => !isOrder(listed))
  const orders = await store.findOrders(certificates.map(({ lineage }) => lineage))
  return all.map((listed) => {
    if (isOrder(listed)) return { order: listed }
    return { record: listed, order: orders.get(listed.lineage) }
  })
}
