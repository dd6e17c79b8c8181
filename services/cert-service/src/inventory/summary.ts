import { listAll } from '@gatehouse/cert-store/listing'
import type { CertificateState } from '@gatehouse/cert-store/port'
import type { FastifyInstance } from 'fastify'
import { readPermitted } from '../lookup/certificates.ts'
import { withOrders } from '../lookup/failing.ts'
import { STATE_NAMES, stateOf } from '../pages/state.ts'
import type { Visitor } from '../visitors/visitors.ts'
import { type Spans, type Summary, spansUntil } from './chart.ts'

const STATES = Object.keys(STATE_NAMES) as readonly CertificateState[]
/** The number of certificates that are counted one by one, for a visitor whose rights are not those of a scope. */
const MAX_READ = 500

/** Counts what a visitor may read: in the store for those who may read all of an issuer, else one by one. */
export async function readSummary(app: FastifyInstance, visitor: Visitor): Promise<Summary> {
  const now = app.clock.now()
  const { isAll, without } = app.policy.scopeOf(visitor, 'read')
  if (!isAll) return countReadable(app, visitor, now)
  const listing = { order: 'next', without, now } as const
  const [latest] = await app.store.listCertificates(listing, { isBackwards: true, limit: 1 })
  const spans = spansUntil(latest ? (latest.renewAt ?? latest.notAfter) : now, now)
  return { ...(await app.store.tally(now, spans.starts, without)), spans, isPartial: false }
}

async function countReadable(app: FastifyInstance, visitor: Visitor, now: number) {
  const listing = { order: 'next', now } as const
  const { records, next } = await readPermitted(app, visitor, MAX_READ, listing, listAll)
  const rows = (await withOrders(app, records)).map(({ record, order }) => {
    return { record, state: record ? stateOf(record, order, now) : 'failing' }
  })
  const countOf = (...states: CertificateState[]) =>
    rows.flatMap(({ record, state }) => (record && states.includes(state) ? record : []))
  const counts = STATES.map((name) => [name, rows.filter(({ state }) => state === name).length])
  const renewalsAt = countOf('renews').map(({ renewAt }) => renewAt ?? now)
  const endsAt = countOf('unrenewed', 'failing').map(({ notAfter }) => notAfter)
  const spans = spansUntil(Math.max(now, ...renewalsAt, ...endsAt), now)
  return {
    counts: Object.fromEntries(counts),
    renewals: countBySpan(renewalsAt, spans),
    ends: countBySpan(endsAt, spans),
    spans,
    isPartial: next !== undefined,
  }
}

function countBySpan(moments: readonly number[], { starts }: Spans): number[] {
  return starts.map((start, i) => {
    const end = starts[i + 1] ?? Number.POSITIVE_INFINITY
    return moments.filter((moment) => moment > start && moment <= end).length
  })
}
