import type {
  CertificateState,
  Listed,
  Listing,
  ListOrder,
  ListPage,
  OrderRecord,
  Position,
  Search,
  Tally,
} from './records.ts'
import type { Store } from './store.ts'

/** What the engines write differently in the SQL of a listing. */
export interface ListingDialect {
  readonly isCurrent: string
  readonly nextAt: string
  readonly name: string
  /** The first name of an order. */
  readonly orderName: string
  /** The table of certificates with the index that a search reads. */
  readonly searched: string
  /** A parameter, by its number from 1. */
  param(number: number): string
  /** A condition that few certificates meet, so that these are read first and then sorted. */
  few(condition: string): string
  /** Conditions of which one has to hold. `add` gives the parameter of a value. */
  matches(search: Search, add: (value: string) => string): readonly string[]
  /** The same for an order. */
  matchesOrder(search: Search, add: (value: string) => string): readonly string[]
}

type Value = number | string

/** A statement after its `SELECT … WHERE`, and its parameters. */
export interface ListingQuery {
  readonly where: string
  readonly params: readonly Value[]
}

/** What has no certificate comes after all that ends, by its next try: this is added to that. */
const NO_END = 1e14

export function isOrder(listed: Listed): listed is OrderRecord {
  return 'status' in listed
}

/** Where a certificate or an order stands in a listing. */
export function positionOf(listed: Listed, by: ListOrder): Position {
  const { id } = listed
  const [name = ''] = listed.names
  if (!isOrder(listed)) {
    const { renewAt, notAfter } = listed
    return { key: { next: renewAt ?? notAfter, expiry: notAfter, name, newest: id }[by], id }
  }
  const next = listed.nextTryAt ?? listed.since
  return { key: { next, expiry: next + NO_END, name, newest: listed.since }[by], id }
}

/** A page of a listing, of certificates and of failed orders that have none. */
export async function listAll(
  store: Pick<Store, 'listCertificates' | 'listFailedOrders'>,
  listing: Listing,
  page: ListPage,
): Promise<readonly Listed[]> {
  const { order, state = 'failing' } = listing
  const [certificates, orders] = await Promise.all([
    store.listCertificates(listing, page),
    state === 'failing' ? store.listFailedOrders(listing, page) : [],
  ])
  const sign = isDescending(order, page) ? -1 : 1
  const compare = (a: Listed, b: Listed) => {
    const [one, other] = [positionOf(a, order).key, positionOf(b, order).key]
    if (one !== other) return one < other ? -sign : sign
    return sign * (Number(isOrder(a)) - Number(isOrder(b)))
  }
  return [...certificates, ...orders].toSorted(compare).slice(0, page.limit)
}

/**
 * The SQL of a page. Its ids are found first, by an index alone as far as there is one, because a row is
 * large. Backwards, it begins with the certificate that is nearest to the position.
 */
export function pageQuery(dialect: ListingDialect, listing: Listing, page: ListPage): ListingQuery {
  const { isCurrent, nextAt: next, name } = dialect
  const { order, state, search, now } = listing
  const key = { next, expiry: 'not_after', name, newest: 'id' }[order]
  const { params, add, about, end } = pageOf(dialect, listing, page, { key, isOrder: false })
  const inState = state ? conditionsOf(dialect, state, () => add(now)) : []
  const table = search ? dialect.searched : 'certificates'
  const ids = (match: string) => `
    SELECT id FROM ${table} WHERE ${[isCurrent, ...inState, ...about, match].join(' AND ')} ${end}`
  const matches = search ? dialect.matches(search, add) : ['true']
  const found = matches.map((match) => `SELECT id FROM (${ids(match)}) AS matching`)
  return { where: `id IN (${found.join(' UNION ')}) ${end}`, params }
}

/** The SQL of a page of failed orders without a certificate. */
export function orderQuery(
  dialect: ListingDialect,
  listing: Listing,
  page: ListPage,
): ListingQuery {
  const { orderName: name } = dialect
  const next = 'coalesce(next_try_at, since)'
  const key = { next, expiry: `${next} + ${NO_END}`, name, newest: 'since' }[listing.order]
  const { params, add, about, end } = pageOf(dialect, listing, page, { key, isOrder: true })
  const matches = listing.search ? dialect.matchesOrder(listing.search, add) : ['true']
  const match = `(${['false', ...matches].join(' OR ')})`
  return { where: `${[isWithout(dialect), ...about, match].join(' AND ')} ${end}`, params }
}

/** By what certificates or orders are sorted. */
interface Sorted {
  readonly key: string
  readonly isOrder: boolean
}

/** What pages of certificates and of orders have in common. */
function pageOf({ param }: ListingDialect, { order, issuer }: Listing, page: ListPage, of: Sorted) {
  const params: Value[] = []
  const add = (value: Value) => param(params.push(value))
  const down = isDescending(order, page)
  const about = [
    ...(issuer === undefined ? [] : [`issuer = ${add(issuer)}`]),
    ...(page.from ? [beyond(of, page.from, down ? '<' : '>', add)] : []),
  ]
  const direction = down ? ' DESC' : ''
  const end = `ORDER BY ${of.key}${direction}, id${direction} LIMIT ${add(page.limit)}`
  return { params, add, about, end }
}

function isDescending(order: ListOrder, { isBackwards = false }: ListPage): boolean {
  return (order === 'newest') !== isBackwards
}

/** What comes after a position. With the same key, certificates come before orders. */
function beyond(
  { key, isOrder }: Sorted,
  from: Position,
  than: '<' | '>',
  add: (value: Value) => string,
): string {
  const at = add(from.key)
  if ((typeof from.id === 'string') === isOrder)
    return `${key} ${than}= ${at} AND (${key} ${than} ${at} OR id ${than} ${add(from.id)})`
  return isOrder === (than === '>') ? `${key} ${than}= ${at}` : `${key} ${than} ${at}`
}

/** The same as `stateOf` of the page says of a record and its order. */
function conditionsOf(
  dialect: ListingDialect,
  state: CertificateState,
  addNow: () => string,
): readonly string[] {
  const { few } = dialect
  if (state === 'failing') return [`id IN (${failingIds(dialect)})`]
  const now = addNow()
  const lives = `not_after > ${now}`
  const isFine = `id NOT IN (${failingIds(dialect)})`
  return {
    renews: [lives, `renew_at > ${now}`, isFine],
    due: [lives, few(`renew_at <= ${now}`), isFine],
    unrenewed: [lives, few('renew_at IS NULL'), isFine],
    ended: [few(`not_after <= ${now}`), isFine],
  }[state]
}

/** The current certificates whose order has failed. */
function failingIds({ isCurrent }: Pick<ListingDialect, 'isCurrent'>): string {
  return `SELECT held.id FROM orders JOIN certificates AS held
    ON held.lineage = orders.lineage AND held.${isCurrent} WHERE orders.status = 'failed'`
}

/** A failed order of a lineage that has no current certificate. */
function isWithout({ isCurrent }: Pick<ListingDialect, 'isCurrent'>): string {
  return `status = 'failed' AND NOT EXISTS (SELECT 1 FROM certificates AS held
    WHERE held.lineage = orders.lineage AND held.${isCurrent})`
}

interface Failing {
  readonly renewAt: number | null
  readonly notAfter: number
}

/** How an engine runs a statement. */
type Run = <Row>(sql: string, ...params: Value[]) => Promise<readonly Row[]>

/** Counts what has failed, by its issuer. */
export async function countFailed(run: Run): Promise<Readonly<Record<string, number>>> {
  const sql = `SELECT issuer, count(*) AS total FROM orders WHERE status = 'failed' GROUP BY issuer`
  const rows = await run<{ issuer: string; total: number }>(sql)
  return Object.fromEntries(rows.map(({ issuer, total }) => [issuer, total]))
}

/** Failing certificates that a tally looks at; if there are more, it takes the others for renewed ones. */
const MAX_FAILING = 10_000
const NEVER = Number.MAX_SAFE_INTEGER

/** Counts by ranges of indexes. The few that fail are counted as what they are afterwards. */
export async function tally(
  dialect: ListingDialect,
  run: Run,
  now: number,
  starts: readonly number[],
): Promise<Tally> {
  const { isCurrent, nextAt } = dialect
  const [one, two, three] = [1, 2, 3].map((number) => dialect.param(number))
  const count = async (condition: string, ...params: Value[]) => {
    const sql = `SELECT count(*) AS total FROM certificates WHERE ${isCurrent} AND ${condition}`
    return (await run<{ total: number }>(sql, ...params))[0]?.total ?? 0
  }
  const renewed = (from: number, to: number) => {
    const range = `${nextAt} > ${one} AND ${nextAt} <= ${two}`
    return count(`${range} AND renew_at IS NOT NULL AND not_after > ${three}`, from, to, now)
  }
  const ending = (from: number, to: number) =>
    count(`not_after > ${one} AND not_after <= ${two} AND renew_at IS NULL`, from, to)
  const spans = starts.map((start, i) => [start, starts[i + 1] ?? NEVER] as const)
  const [ended, due, renewals, ends, failing, without] = await Promise.all([
    count(`not_after <= ${one}`, now),
    renewed(0, now),
    Promise.all(spans.map(([from, to]) => renewed(from, to))),
    Promise.all(spans.map(([from, to]) => ending(from, to))),
    run<Failing>(
      `SELECT renew_at AS "renewAt", not_after AS "notAfter" FROM certificates
      WHERE id IN (${failingIds(dialect)}) LIMIT ${MAX_FAILING}`,
    ),
    run<{ total: number }>(`SELECT count(*) AS total FROM orders WHERE ${isWithout(dialect)}`),
  ])
  const { counts, ...ahead } = withFailing({ ended, due, renewals, ends }, failing, spans, now)
  return { counts: { ...counts, failing: counts.failing + (without[0]?.total ?? 0) }, ...ahead }
}

function withFailing(
  { ended, due, renewals, ends }: Pick<Tally, 'renewals' | 'ends'> & { ended: number; due: number },
  all: readonly Failing[],
  spans: readonly (readonly [number, number])[],
  now: number,
): Tally {
  const failing = all.filter(({ notAfter }) => notAfter > now)
  const within = (of: (one: Failing) => number | null, [from, to]: readonly [number, number]) =>
    failing.filter((one) => {
      const at = of(one)
      return at !== null && at > from && at <= to
    }).length
  const sum = (counts: readonly number[]) => counts.reduce((all, each) => all + each, 0)
  const unrenewed = sum(ends) - failing.filter(({ renewAt }) => renewAt === null).length
  const renewing = renewals.map(
    (all, i) => all - within(({ renewAt }) => renewAt, spans[i] ?? [0, 0]),
  )
  const isToEnd = ({ renewAt, notAfter }: Failing) => (renewAt === null ? null : notAfter)
  return {
    counts: {
      renews: sum(renewing),
      due: due - within(({ renewAt }) => renewAt, [0, now]),
      unrenewed,
      failing: all.length,
      ended: ended - (all.length - failing.length),
    },
    renewals: renewing,
    ends: ends.map((all, i) => all + within(isToEnd, spans[i] ?? [0, 0])),
  }
}
