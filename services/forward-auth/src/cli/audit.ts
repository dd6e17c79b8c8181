import { AUTH_ERRORS } from '@gatehouse/auth-core'
import { compilePattern } from '@gatehouse/gate'
import { durationOf } from '@gatehouse/service-kit/config'
import { printable, UsageError } from '@gatehouse/service-kit/program'
import { ERRORS } from '../errors.ts'
import type { AuditRow } from '../store/store.ts'

type Option = 'portal' | 'event' | 'request' | 'host' | 'person' | 'tool' | 'client'

/** Whether an option selects a row. Where a row has `*`, it may stand for what is looked for. */
const OPTIONS: Readonly<Record<Option, (row: AuditRow, text: string) => boolean>> = {
  portal: ({ portal }, text) => portal === text,
  event: ({ event }, text) => event === text,
  request: ({ requestId }, text) => requestId === text,
  host: ({ host }, text) => host === text || host === '*',
  /** Matches a person by any name: identifier, with or without the provider, user name, e-mail address or full name. */
  person: ({ person, provider, username, email, name }, text) =>
    (person !== undefined && ['*', text, `${provider}:${text}`].includes(person)) ||
    [username, email, name].some((alias) => alias?.toLowerCase() === text.toLowerCase()),
  tool: ({ tool }, text) => tool !== undefined && (tool === '*' || compilePattern(text)(tool)),
  /** Matches a client by its ID or its host. */
  client: (row, text) => [row.client, ...hostsOf(row)].includes(text) || row.client === '*',
}

type AuditQuery = Readonly<Partial<Record<Option, string | undefined>>> & {
  readonly rows: AsyncIterable<AuditRow>
  readonly as: keyof typeof WRITERS
}

const jsonOf = (row: AuditRow) => `${JSON.stringify(row)}\n`
const WRITERS = { json: jsonOf, table: lineOf, story: storyOf }

/** Whether a row is about a person who is called so. */
export const isAbout = OPTIONS.person

/** The rows of the audit trail that a query selects, as lines. Rejects at the end if it names somebody and finds none. */
export async function* listAudit({ rows, as, ...query }: AuditQuery): AsyncGenerator<string> {
  const { person, request } = query
  const filters = Object.entries(query) as [Option, string | undefined][]
  let isFound = as !== 'story' && (person ?? request) === undefined
  if (as === 'table') yield cellsOf(TITLES)
  for await (const row of rows) {
    const isMatch = filters.every(([name, text]) => text === undefined || OPTIONS[name](row, text))
    if (!isMatch) continue
    const text = WRITERS[as](row)
    isFound ||= text !== ''
    yield text
  }
  if (!isFound)
    throw new Error(
      `the audit trail has nothing of that time about ${printable(person ?? request ?? query.host ?? 'anybody')}`,
    )
}

/** The host of a client ID that is a URL: with its port, and without. */
function hostsOf({ client = '' }: AuditRow): readonly string[] {
  const url = URL.parse(client)
  return url ? [url.host, url.hostname] : []
}

/** The columns with their titles and widths, in characters. Longer values move the rest of their line. */
const COLUMNS = [
  ['time', 'TIME', 20],
  ['event', 'EVENT', 15],
  ['portal', 'PORTAL', 6],
  ['person', 'PERSON', 32],
  ['host', 'HOST', 18],
  ['client', 'CLIENT', 15],
  ['details', 'TOOL, CODE, REASON', 0],
] as const
const TITLES = Object.fromEntries(COLUMNS.map(([column, title]) => [column, title]))

type TableRow = Readonly<Partial<Record<(typeof COLUMNS)[number][0], string | undefined>>>

function lineOf(row: AuditRow): string {
  const { client = row.clientAddress, tool, code, count, outcome, duration } = row
  const result = outcome && `${outcome} in ${duration} ms`
  const details = [tool, result, code, reasonOf(row) ?? enderOf(row), count && `x${count}`]
  return cellsOf({
    ...row,
    ...{ person: whoOf(row) ?? row.provider, client: hostsOf(row)[0] || client },
    time: timeOf(row),
    details: details.filter(Boolean).join(' ') || undefined,
  })
}

/** Without milliseconds. */
function timeOf({ time }: AuditRow): string {
  return time.replace(/\.\d+/, '')
}

/** The best known name of a person, and the identifier. */
function whoOf({ person, email, username, name }: AuditRow): string | undefined {
  return nameWithId(email ?? username ?? name, person)
}

function nameWithId(name: string | undefined, id: string | undefined): string | undefined {
  return name === undefined ? id : `${name} (${id})`
}

function reasonOf({ refusedBy, clause }: AuditRow): string | undefined {
  return clause === undefined ? refusedBy : `${refusedBy}, because this is not true: ${clause}`
}

function enderOf({ endedBy, actor, actorName }: AuditRow): string | undefined {
  if ((endedBy ?? actor) === undefined) return undefined
  return ['by', endedBy, nameWithId(actorName, actor)].filter(Boolean).join(' ')
}

const ERROR_TEXTS: Readonly<Record<string, Readonly<Record<'title' | 'action', string>>>> = {
  ...{ ...AUTH_ERRORS, ...ERRORS },
}

/** Tells who was refused what, when, where and why, or whose session ended; empty for other rows. */
function storyOf(row: AuditRow): string {
  const { event, host, method, path, code, groups, clientAddress, tool, endedBy } = row
  if ((code ?? endedBy) === undefined) return ''
  const { title, action } = ERROR_TEXTS[code ?? ''] ?? {}
  const circumstances = [
    ['at', host],
    ['by', method && `${method} ${path ?? ''}`],
    ['calling', tool],
    ['from', clientAddress],
  ]
  const lines = [
    `${timeOf(row)}  ${event}: ${whoOf(row) ?? 'somebody who is not signed in'}`,
    circumstances.flatMap(([word, text]) => (text ? [word, text] : [])).join(' '),
    endedBy ? `ended ${enderOf(row)}` : `refused by ${reasonOf(row) ?? code}`,
    ...groupLines(groups),
    title && `${code}: ${title}. ${action}`,
    `request ${row.requestId || 'none'}`,
  ]
  return `${lines.flatMap((line) => (line ? printable(line) : [])).join('\n  ')}\n\n`
}

const GROUPS_IN_LINE = 5

/** Several lines, since a long one would be cut. */
function groupLines(groups: string | undefined): string[] {
  const names = groups ? groups.split(', ') : []
  return names.flatMap((_, i) => {
    if (i % GROUPS_IN_LINE !== 0) return []
    return `${i === 0 ? 'groups: ' : '  '}${names.slice(i, i + GROUPS_IN_LINE).join(', ')}`
  })
}

function cellsOf(row: TableRow): string {
  const cells = COLUMNS.map(([column, , width]) => printable(row[column] ?? '-').padEnd(width))
  return `${cells.join('  ').trimEnd()}\n`
}

const DAY = 24 * 3_600_000
const CLOCK = /^(?:[01]?\d|2[0-3]):[0-5]\d$/
const DATE = /^\d{4}-\d{2}-\d{2}$/

/**
 * A time in ms: a duration before now such as `24h`, a time of the last day such as `10:03`, or a date, with or without
 * a time and a zone. Without a zone it is one of this machine.
 *
 * @throws UsageError
 */
export function readTime(option: string, text: string, now: number): number {
  const span = durationOf(text)
  if (span !== undefined) return now - span
  const isClock = CLOCK.test(text)
  const today = new Date(now).toDateString()
  const isTime = isClock || /^\d{4}-/.test(text)
  const time = Date.parse(isClock ? `${today} ${text}` : DATE.test(text) ? `${text}T00:00` : text)
  if (isTime && !Number.isNaN(time)) return isClock && time > now ? time - DAY : time
  throw new UsageError(`${option} must be a time such as 24h, 10:03 or 2030-01-31T10:03`)
}
