import { isOrder, listAll, positionOf } from '@gatehouse/cert-store/listing'
import type { CertificateState, Listed, Position } from '@gatehouse/cert-store/port'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import type { FastifyInstance } from 'fastify'
import { STATE_NAMES } from '../pages/state.ts'
import { mayAll } from '../policy/authorize.ts'
import type { Visitor } from '../visitors/visitors.ts'
import { type Spans, type Summary, spansUntil } from './chart.ts'

const STATES = Object.keys(STATE_NAMES) as readonly CertificateState[]
const PAGE = 100
/** The number of certificates of each state that are looked at for a visitor who may not read all. */
const MAX_READ = 500

/** Counts what a visitor may read: in the store for those who may read everything, else one by one. */
export async function readSummary(app: FastifyInstance, visitor: Visitor): Promise<Summary> {
  const now = app.clock.now()
  if (!(await maySeeAll(app, visitor, now))) return countReadable(app, visitor, now)
  const listing = { order: 'next', now } as const
  const [last] = await app.store.listCertificates(listing, { isBackwards: true, limit: 1 })
  const spans = spansUntil(last ? (last.renewAt ?? last.notAfter) : now, now)
  return { ...(await app.store.tally(now, spans.starts)), spans, isPartial: false }
}

/** Those who may not read certificates of clients see all while there are none. */
async function maySeeAll(app: FastifyInstance, visitor: Visitor, now: number): Promise<boolean> {
  const { policy, store } = app
  if (!policy.grantsAll(visitor, 'read', 'server')) return false
  if (policy.grantsAll(visitor, 'read', 'client')) return true
  const ofClients = { order: 'next', issuer: CLIENT_ISSUER, now } as const
  return (await listAll(store, ofClients, { limit: 1 })).length === 0
}

async function countReadable(
  app: FastifyInstance,
  visitor: Visitor,
  now: number,
): Promise<Summary> {
  const read = Object.fromEntries(
    await Promise.all(
      STATES.map(async (state) => [state, await readState(app, visitor, state, now)] as const),
    ),
  ) as Record<CertificateState, Awaited<ReturnType<typeof readState>>>
  const counts = Object.fromEntries(STATES.map((state) => [state, read[state].records.length]))
  const certificates = (state: CertificateState) =>
    read[state].records.flatMap((listed) => (isOrder(listed) ? [] : listed))
  const renewalsAt = certificates('renews').map(({ renewAt }) => renewAt ?? now)
  const ends = [...certificates('unrenewed'), ...certificates('failing')]
  const endsAt = ends.map(({ notAfter }) => notAfter)
  const spans = spansUntil(Math.max(now, ...renewalsAt, ...endsAt), now)
  return {
    counts: counts as Summary['counts'],
    renewals: countBySpan(renewalsAt, spans),
    ends: countBySpan(endsAt, spans),
    spans,
    isPartial: STATES.some((state) => read[state].isCut),
  }
}

async function readState(
  app: FastifyInstance,
  visitor: Visitor,
  state: CertificateState,
  now: number,
) {
  const records: Listed[] = []
  let from: Position | undefined
  for (let looked = 0; looked < MAX_READ; looked += PAGE) {
    const page = { from, limit: PAGE }
    const listed = await listAll(app.store, { order: 'next', state, now }, page)
    records.push(...listed.filter((record) => mayAll(app, visitor, 'read', record)))
    const last = listed.at(-1)
    if (!last || listed.length < PAGE) return { records, isCut: false }
    from = positionOf(last, 'next')
  }
  return { records, isCut: true }
}

function countBySpan(moments: readonly number[], { starts }: Spans): number[] {
  return starts.map((start, i) => {
    const end = starts[i + 1] ?? Number.POSITIVE_INFINITY
    return moments.filter((at) => at > start && at <= end).length
  })
}
