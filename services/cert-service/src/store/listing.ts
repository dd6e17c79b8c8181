import type {
  CertificateRecord,
  CertificateState,
  Listing,
  ListOrder,
  ListPage,
  Position,
  Search,
  Tally,
} from './records.ts'

/** What the engines write differently in the SQL of a listing. */
export interface ListingDialect {
  readonly isCurrent: string
  readonly nextAt: string
  readonly name: string
  /** The table of certificates with the index that a search reads. */
  readonly searched: string
  /** A parameter, by its number from 1. */
  param(number: number): string
  /** A condition that few certificates meet, so that these are read first and then sorted. */
  few(condition: string): string
  /** Conditions of which one has to hold. `add` gives the parameter of a value. */
  matches(search: Search, add: (value: string) => string): readonly string[]
}

type Value = number | string

/** A statement after its `SELECT … WHERE`, and its parameters. */
export interface ListingQuery {
  readonly where: string
  readonly params: readonly Value[]
}

/** Where a certificate stands in an order. */
export function positionOf(
  { id, names: [name = ''], renewAt, notAfter }: CertificateRecord,
  order: ListOrder,
): Position {
  const keys = { next: renewAt ?? notAfter, expiry: notAfter, name, newest: id }
  return { key: keys[order], id }
}

/**
 * The SQL of a page. Its ids are found first, by an index alone as far as there is one, because a row is
 * large. Backwards, it begins with the certificate that is nearest to the position.
 */
export function pageQuery(
  dialect: ListingDialect,
  { order, state, issuer, search, now }: Listing,
  { from, isBackwards = false, limit }: ListPage,
): ListingQuery {
  const params: Value[] = []
  const add = (value: Value) => dialect.param(params.push(value))
  const key = keysOf(dialect)[order]
  const isDescending = (order === 'newest') !== isBackwards
  const sorted = sortedBy(key, isDescending)
  const conditions = [
    dialect.isCurrent,
    ...(state ? conditionsOf(dialect, state, add(now)) : []),
    ...(issuer === undefined ? [] : [`issuer = ${add(issuer)}`]),
    ...(from ? [beyond(key, isDescending ? '<' : '>', add(from.key), add(from.id))] : []),
  ]
  const most = add(limit)
  const table = search ? dialect.searched : 'certificates'
  const ids = (match: string) => `
    SELECT id FROM ${table} WHERE ${[...conditions, match].join(' AND ')} ${sorted} LIMIT ${most}`
  const matches = search ? dialect.matches(search, add) : ['true']
  const found = matches.map((match) => `SELECT id FROM (${ids(match)}) AS matching`)
  return { where: `id IN (${found.join(' UNION ')}) ${sorted} LIMIT ${most}`, params }
}

function keysOf({ nextAt, name }: ListingDialect): Readonly<Record<ListOrder, string>> {
  return { next: nextAt, expiry: 'not_after', name, newest: 'id' }
}

function sortedBy(key: string, isDescending: boolean): string {
  const direction = isDescending ? ' DESC' : ''
  return `ORDER BY ${key}${direction}, id${direction}`
}

function beyond(key: string, than: '<' | '>', at: string, id: string): string {
  return `${key} ${than}= ${at} AND (${key} ${than} ${at} OR id ${than} ${id})`
}

/** The same as `stateOf` of the page says of a record and its order. */
function conditionsOf(
  dialect: ListingDialect,
  state: CertificateState,
  now: string,
): readonly string[] {
  const { few } = dialect
  const lives = `not_after > ${now}`
  const isFailing = `id IN (${failingIds(dialect)})`
  const isFine = `id NOT IN (${failingIds(dialect)})`
  return {
    renews: [lives, `renew_at > ${now}`, isFine],
    due: [lives, few(`renew_at <= ${now}`), isFine],
    unrenewed: [lives, few('renew_at IS NULL'), isFine],
    failing: [lives, isFailing],
    ended: [few(`not_after <= ${now}`)],
  }[state]
}

/** The current certificates whose order has failed. */
function failingIds({ isCurrent }: Pick<ListingDialect, 'isCurrent'>): string {
  return `SELECT held.id FROM orders JOIN certificates AS held
    ON held.lineage = orders.lineage AND held.${isCurrent} WHERE orders.status = 'failed'`
}

interface Failing {
  readonly renewAt: number | null
  readonly notAfter: number
}

/** How an engine runs a statement. */
type Run = <Row>(sql: string, ...params: Value[]) => Promise<readonly Row[]>

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
  const [ended, due, renewals, ends, failing] = await Promise.all([
    count(`not_after <= ${one}`, now),
    renewed(0, now),
    Promise.all(spans.map(([from, to]) => renewed(from, to))),
    Promise.all(spans.map(([from, to]) => ending(from, to))),
    run<Failing>(
      `SELECT renew_at AS "renewAt", not_after AS "notAfter" FROM certificates
      WHERE not_after > ${one} AND id IN (${failingIds(dialect)}) LIMIT ${MAX_FAILING}`,
      now,
    ),
  ])
  return withFailing({ ended, due, renewals, ends }, failing, spans, now)
}

function withFailing(
  { ended, due, renewals, ends }: Pick<Tally, 'renewals' | 'ends'> & { ended: number; due: number },
  failing: readonly Failing[],
  spans: readonly (readonly [number, number])[],
  now: number,
): Tally {
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
      failing: failing.length,
      ended,
    },
    renewals: renewing,
    ends: ends.map((all, i) => all + within(isToEnd, spans[i] ?? [0, 0])),
  }
}
