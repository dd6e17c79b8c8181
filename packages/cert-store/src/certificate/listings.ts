import type { Engine } from '@gatehouse/store'
import { LRUCache } from 'lru-cache'
import { orderOf } from '../orders/order-record.ts'
import { isDescending, NO_END } from '../port/listing.ts'
import { notServed } from '../port/probes.ts'
import type { Listing, ListOrder, ListPage, Position, Search, Tally } from '../port/records.ts'
import type { Listings } from '../port/store.ts'
import { CLIENT_ISSUER, isCovered } from '../schema/coverage.ts'
import { IDS, TEXTS } from '../schema/sql.ts'
import { ORDERS } from '../schema/tables.ts'
import type { SelectCertificates } from './certificates.ts'

/** Failing certificates that a tally counts at most. */
const MAX_FAILING = 10_000
/** A count of at least so many is remembered, and for so many ms. */
const MANY = 20_000
const REMEMBERED = 10_000
const NEVER = Number.MAX_SAFE_INTEGER
/** More than there is. */
const ALL = 1_000_000_000
/** The separator of names in JSON, which no name contains. */
const PUNCTUATION = /[[\],"\\]/

/** SQL: by the index that has all that is searched by. The limit keeps the engines from those of other orders. */
const IN_ONE_INDEX = `ORDER BY coalesce(renew_at, not_after), id LIMIT ${ALL}`
const CURRENT = `
  SELECT id, not_after, renew_at, issuer, domain FROM certificates WHERE is_current`
/** The same expression as in the index. */
const NEXT = 'coalesce(renew_at, not_after)'
const NEXT_TRY = 'coalesce(next_try_at, since)'
const FIRST_NAME = '(names::json->>0)'
/** The current certificates whose order has failed. */
const FAILING = `
  SELECT held.id FROM orders JOIN certificates AS held
    ON held.request_key = orders.request_key AND held.is_current WHERE orders.status = 'failed'`
/** The current certificates of servers one of whose names is served by another one. */
const unserved = (now: string) => `
  SELECT held.id FROM probes JOIN certificates AS held ON held.domain = probes.name AND held.is_current
  WHERE ${notServed(now)} AND held.issuer <> '${CLIENT_ISSUER}'
  UNION SELECT certificate FROM probes JOIN certificate_names ON certificate_names.name = probes.name
  WHERE ${notServed(now)}`
const IS_FINE = `id NOT IN (${FAILING})`
/** The failed orders of request keys that have no current certificate. */
const IS_WITHOUT = `
  status = 'failed' AND NOT EXISTS (
    SELECT 1 FROM certificates AS held WHERE held.request_key = orders.request_key AND held.is_current)`

/** A span of time, without its start and with its end. */
type Span = readonly [from: number, to: number]
type Value = number | string
/** Gives the parameter that stands for a value. */
type Add = (value: Value) => string

export function listingsOn(db: Engine, select: SelectCertificates): Listings {
  /** Counts of many, which take long and are hardly others soon afterwards. */
  const tallies = new LRUCache<string, Promise<Tally>>({ max: 10, ttl: REMEMBERED })

  /** Counts by ranges of indexes. No issuer is ''. */
  async function tallyAnew(
    now: number,
    starts: readonly number[],
    without: string,
  ): Promise<Tally> {
    const source = `FROM certificates WHERE is_current AND issuer <> $1 AND ${IS_FINE} AND`
    const renewed = ([from, to]: Span) =>
      count(
        `${source} ${NEXT} > $2 AND ${NEXT} <= $3 AND renew_at IS NOT NULL AND not_after > $4`,
        ...[without, from, to, now],
      )
    const ending = ([from, to]: Span) =>
      count(`${source} not_after > $2 AND not_after <= $3 AND renew_at IS NULL`, without, from, to)
    const spans = starts.map((start, i) => [start, starts[i + 1] ?? NEVER] as const)
    const [ended, due, renewals, ends, failing, alone] = await Promise.all([
      count(`${source} not_after <= $2`, without, now),
      renewed([0, now]),
      Promise.all(spans.map(renewed)),
      Promise.all(spans.map(ending)),
      db.reports.all<{ ends: number }>(
        `SELECT not_after AS ends FROM certificates WHERE id IN (${FAILING}) AND issuer <> $1 LIMIT ${MAX_FAILING}`,
        without,
      ),
      count(`FROM orders WHERE ${IS_WITHOUT} AND issuer <> $1`, without),
    ])
    const states = { renews: sum(renewals), due, unrenewed: sum(ends), ended }
    const within = ([from, to]: Span) =>
      failing.filter((row) => row.ends > from && row.ends <= to).length
    return {
      counts: { ...states, failing: failing.length + alone },
      renewals,
      ends: spans.map((span, i) => (ends[i] ?? 0) + within(span)),
    }
  }

  async function count(from: string, ...params: readonly Value[]): Promise<number> {
    const row = await db.reports.get<{ total: number }>(
      `SELECT count(*) AS total ${from}`,
      ...params,
    )
    return row?.total ?? 0
  }

  return {
    async listCertificates(listing, page) {
      const { clause, params } = pageQuery(listing, page)
      const sql = `SELECT id FROM certificates ${clause}`
      const ids = (await db.reports.all<{ id: number }>(sql, ...params)).map(({ id }) => id)
      const records = await select(`WHERE id IN (${IDS})`, JSON.stringify(ids))
      return records.toSorted((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id))
    },
    async listFailedOrders(listing, page) {
      const { clause, params } = orderQuery(listing, page)
      return (await ORDERS.list(db.reports, clause, ...params)).map(orderOf)
    },
    async countFailedOrders() {
      const rows = await db.reports.all<{ issuer: string; total: number }>(
        `SELECT issuer, count(*) AS total FROM orders WHERE status = 'failed' GROUP BY issuer`,
      )
      return Object.fromEntries(rows.map(({ issuer, total }) => [issuer, total]))
    },
    async tally(now, starts, without = '') {
      const [first = now, second = now] = starts
      const key = `${second - first} ${without}`
      const cached = tallies.get(key)
      if (cached) return cached
      const counting = tallyAnew(now, starts, without)
      tallies.set(key, counting)
      const total = await counting.then(({ counts }) => sum(Object.values(counts))).catch(() => 0)
      if (total < MANY) tallies.delete(key)
      return counting
    },
  }
}

/** SQL after `SELECT … FROM`, and its parameters. */
interface ListingQuery {
  readonly clause: string
  readonly params: readonly Value[]
}

/**
 * A page of certificates. Their ids are found first, by an index alone as far as there is one, because a row is
 * large. Backwards, it begins with the certificate that is nearest to the position.
 */
function pageQuery(listing: Listing, page: ListPage): ListingQuery {
  const { order, state, endsBefore, search, now } = listing
  const key = { next: NEXT, expiry: 'not_after', name: 'domain COLLATE "C"', newest: 'id' }
  const sorted = { key: key[order], name: 'domain', isOrder: false }
  const { params, add, about, scope, end } = pageOf(listing, page, sorted)
  const states = state ? conditionsOf(state, () => add(now)) : []
  const ends = endsBefore === undefined ? [] : [`not_after < ${add(endsBefore)}`]
  const where = [...states, ...ends, ...about].join(' AND ')
  const current = [CURRENT, ...scope].join(' AND ')
  const whole = scope.length > 0 ? `${current} ${IN_ONE_INDEX}` : current
  const sources = search ? sourcesOf(search, order, add, current) : [whole]
  // A statement has to use all of its parameters.
  if (sources.length === 0) sources.push(`${current} AND false`)
  const pages = sources.map(
    (source) => `SELECT id FROM (
      SELECT id FROM (${source}) AS found ${where && `WHERE ${where}`} ${end}) AS page`,
  )
  return { clause: `WHERE id IN (${pages.join(' UNION ')}) ${end}`, params }
}

/** A page of failed orders without a certificate. */
function orderQuery(listing: Listing, page: ListPage): ListingQuery {
  const { order, search } = listing
  const name = `${FIRST_NAME} COLLATE "C"`
  const key = { next: NEXT_TRY, expiry: `${NEXT_TRY} + ${NO_END}`, name, newest: 'since' }[order]
  const sorted = { key, name: FIRST_NAME, isOrder: true }
  const { params, add, about, scope, end } = pageOf(listing, page, sorted)
  const matches = search
    ? [partOf(search), search.wildcard && JSON.stringify(search.wildcard)]
        .filter((text) => text !== undefined)
        .map((text) => `strpos(names, ${add(text)}) > 0`)
    : ['true']
  const match = `(${['false', ...matches].join(' OR ')})`
  return { clause: `WHERE ${[IS_WITHOUT, ...about, ...scope, match].join(' AND ')} ${end}`, params }
}

/** The column by which certificates or orders are sorted. */
interface Sorted {
  readonly key: string
  /** SQL: the first name. */
  readonly name: string
  readonly isOrder: boolean
}

/** The conditions that pages of certificates and of orders share. */
function pageOf({ order, issuer, without, names }: Listing, page: ListPage, sorted: Sorted) {
  const params: Value[] = []
  const add = (value: Value) => `$${params.push(value)}`
  const down = isDescending(order, page)
  const about = [
    ...(issuer === undefined ? [] : [`issuer = ${add(issuer)}`]),
    ...(without === undefined ? [] : [`issuer <> ${add(without)}`]),
    ...(page.from ? [beyond(sorted, page.from, down ? '<' : '>', add)] : []),
  ]
  const patterns = names?.patterns.map((pattern) => `${sorted.name} LIKE ${add(pattern)}`) ?? []
  const exact = () =>
    `${sorted.name} IN (${TEXTS.replace('$1', add(JSON.stringify(names?.exact)))})`
  const scope = names ? [`(${[exact(), ...patterns].join(' OR ')})`] : []
  const direction = down ? ' DESC' : ''
  const end = `ORDER BY ${sorted.key}${direction}, id${direction} LIMIT ${add(page.limit)}`
  return { params, add, about, scope, end }
}

/** The condition for rows after a position. With the same key, certificates come before orders. */
function beyond({ key, isOrder }: Sorted, from: Position, than: '<' | '>', add: Add): string {
  const start = add(from.key)
  if ((typeof from.id === 'string') === isOrder)
    return `${key} ${than}= ${start} AND (${key} ${than} ${start} OR id ${than} ${add(from.id)})`
  return isOrder === (than === '>') ? `${key} ${than}= ${start}` : `${key} ${than} ${start}`
}

/** Conditions for a state, which `stateOf` of the page finds for a record and its order. */
function conditionsOf(
  state: NonNullable<Listing['state']>,
  addNow: () => string,
): readonly string[] {
  if (state === 'failing') return [`id IN (${FAILING})`]
  const now = addNow()
  const lives = `not_after > ${now}`
  const isDue = `(${NEXT} <= ${now} AND renew_at <= ${now})`
  // These are few, so that they are read first and then sorted.
  const few = (condition: string) =>
    `id IN (SELECT id FROM certificates WHERE is_current AND ${condition})`
  return {
    renews: [lives, `renew_at > ${now}`, IS_FINE],
    due: [lives, few(isDue), IS_FINE],
    unrenewed: [lives, few('renew_at IS NULL'), IS_FINE],
    ended: [few(`not_after <= ${now}`), IS_FINE],
    unserved: [`id IN (${unserved(now)})`],
    covered: [few(`(renew_at IS NULL OR ${isDue}) AND ${isCovered('any')}`)],
  }[state]
}

/**
 * The rows that a search reads. Parts of names are in one index alone: the index of another order would lead to every
 * row, and the limit keeps the engines from it.
 */
function sourcesOf(search: Search, order: ListOrder, add: Add, current: string): string[] {
  const { wildcard, serialNumber } = search
  const part = partOf(search)
  const text = part === undefined ? undefined : add(part)
  const within = order === 'next' ? '' : IN_ONE_INDEX
  const name = wildcard === undefined ? undefined : add(wildcard)
  const texts = [`strpos(searched, ${text}) > 0`, `searched IS NULL AND strpos(names, ${text}) > 0`]
  const furtherNames = `id IN (SELECT certificate FROM certificate_names WHERE name = ${name})`
  return [
    ...(text ? texts.map((match) => `${current} AND ${match} ${within}`) : []),
    ...(name ? [`${current} AND domain = ${name}`, `${current} AND ${furtherNames}`] : []),
    ...(serialNumber === undefined ? [] : [`${current} AND serial_number = ${add(serialNumber)}`]),
  ]
}

/** Undefined also if no name can have it. */
function partOf({ part }: Search): string | undefined {
  return part !== undefined && PUNCTUATION.test(part) ? undefined : part
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
