import { AUTH_ERRORS } from '@gatehouse/auth-core'
import { compilePattern } from '@gatehouse/gate'
import { durationOf } from '@gatehouse/service-kit/config'
import { printable, UsageError } from '@gatehouse/service-kit/program'
import { ERRORS } from '../errors.ts'
import type { AuditRow } from '../store/store.ts'

/** Texts that rows have to have. Where a row has `*`, it may stand for what is looked for. */
const FILTERS = ['portal', 'event', 'host'] as const

interface AuditQuery
  extends Readonly<Partial<Record<(typeof FILTERS)[number], string | undefined>>> {
  readonly rows: AsyncIterable<AuditRow>
  /** Any name of theirs: identifier, with or without the provider, user name, e-mail address or full name. */
  readonly person?: string | undefined
  /** A pattern, in which `*` stands for any text. */
  readonly tool?: string | undefined
  /** Client ID, or its host. */
  readonly client?: string | undefined
  /** A request ID. */
  readonly request?: string | undefined
  readonly as: 'json' | 'table' | 'story'
}

/** What a row is written as; a story leaves out what refuses and ends nothing. */
const WRITERS: Readonly<Record<AuditQuery['as'], (row: AuditRow) => string>> = {
  json: (row) => `${JSON.stringify(row)}\n`,
  table: lineOf,
  story: (row) => ((row.code ?? row.endedBy) === undefined ? '' : storyOf(row)),
}

/**
 * The rows of the audit trail that a query selects, as lines. Rejects at the end if no row has the person or the
 * request ID.
 */
export async function* listAudit(query: AuditQuery): AsyncGenerator<string> {
  const { rows, person, tool, client, request, as } = query
  const fitsTool = tool === undefined ? undefined : compilePattern(tool)
  const isFound = { person: person === undefined, request: request === undefined }
  if (as === 'table') yield cellsOf(TITLES)
  for await (const row of rows) {
    const isTheirs = person === undefined || isOf(person, row)
    isFound.person ||= isTheirs
    if (!isTheirs && row.person !== '*') continue
    if (request !== undefined && row.requestId !== request) continue
    isFound.request = true
    if (FILTERS.some((name) => query[name] !== undefined && !fits(row[name], query[name]))) continue
    if (fitsTool && row.tool !== '*' && !(row.tool !== undefined && fitsTool(row.tool))) continue
    if (client !== undefined && row.client !== '*' && !isFrom(client, row)) continue
    yield WRITERS[as](row)
  }
  if (!isFound.person) throw new Error(`nobody of that time is called ${printable(person ?? '')}`)
  if (!isFound.request)
    throw new Error(`no row of that time has the request ID ${printable(request ?? '')}`)
}

function fits(value: string | undefined, wanted: string): boolean {
  return value === wanted || value === '*'
}

function isOf(wanted: string, { person, provider, username, email, name }: AuditRow): boolean {
  if (person === wanted || person === `${provider}:${wanted}`) return true
  return [username, email, name].some((one) => one?.toLowerCase() === wanted.toLowerCase())
}

function isFrom(wanted: string, row: AuditRow): boolean {
  return row.client === wanted || hostOf(row) === wanted
}

/** The host of a client ID that is a URL. */
function hostOf({ client = '' }: AuditRow): string | undefined {
  return URL.parse(client)?.host
}

/** The columns with their titles and widths, in characters. Longer values move the rest of their line. */
const COLUMNS = [
  ['time', 'TIME', 20],
  ['event', 'EVENT', 15],
  ['portal', 'PORTAL', 6],
  ['person', 'PERSON', 32],
  ['host', 'HOST', 18],
  ['client', 'CLIENT', 15],
  ['what', 'TOOL, CODE, REASON', 0],
] as const
const TITLES = Object.fromEntries(COLUMNS.map(([column, title]) => [column, title]))

type Shown = Readonly<Partial<Record<(typeof COLUMNS)[number][0], string | undefined>>>

function lineOf(row: AuditRow): string {
  const { client = row.clientAddress, tool, code, count } = row
  const what = [tool, code, reasonOf(row) ?? enderOf(row), count && `x${count}`]
  const shown = { person: whoOf(row) ?? row.provider, client: hostOf(row) || client }
  return cellsOf({
    ...row,
    ...shown,
    time: timeOf(row),
    what: what.filter(Boolean).join(' ') || undefined,
  })
}

/** Without milliseconds. */
function timeOf({ time }: AuditRow): string {
  return time.replace(/\.\d+/, '')
}

/** The best known name of a person, and the identifier. */
function whoOf({ person, email, username, name }: AuditRow): string | undefined {
  return named(email ?? username ?? name, person)
}

function named(name: string | undefined, id: string | undefined): string | undefined {
  return name === undefined ? id : `${name} (${id})`
}

function reasonOf({ refusedBy, clause }: AuditRow): string | undefined {
  return clause === undefined ? refusedBy : `${refusedBy}, because this is not true: ${clause}`
}

function enderOf({ endedBy, actor, actorName }: AuditRow): string | undefined {
  if (endedBy === undefined) return undefined
  return ['by', endedBy, named(actorName, actor)].filter(Boolean).join(' ')
}

const KNOWN: Readonly<Record<string, { title: string; action: string }>> = {
  ...AUTH_ERRORS,
  ...ERRORS,
}

/** Who was refused what, when, where and why, or whose session ended, for a person to read out. */
function storyOf(row: AuditRow): string {
  const {
    event,
    host,
    method,
    path,
    code = '',
    groups,
    clientAddress,
    client,
    tool,
    requestId,
  } = row
  const { title, action } = KNOWN[code] ?? {}
  const asked = [method, path, tool && `to call ${tool}`].filter(Boolean).join(' ')
  const lines = [
    `${timeOf(row)}  ${event}: ${whoOf(row) ?? 'somebody who is not signed in'}`,
    ['at', host ?? 'an unknown host', asked, 'from', clientAddress ?? client ?? 'nowhere']
      .filter(Boolean)
      .join(' '),
    event === 'session-ended' ? `ended ${enderOf(row)}` : `refused by ${reasonOf(row) ?? code}`,
    groups && `groups: ${groups}`,
    title && `${code}: ${title}. ${action}`,
    `request ${requestId || 'none'}`,
  ]
  return `${lines.flatMap((line) => (line ? printable(line) : [])).join('\n  ')}\n\n`
}

function cellsOf(shown: Shown): string {
  const cells = COLUMNS.map(([column, , width]) => printable(shown[column] ?? '-').padEnd(width))
  return `${cells.join('  ').trimEnd()}\n`
}

const CLOCK = /^\d{1,2}:\d{2}(?::\d{2})?$/
const DATE = /^\d{4}-\d{2}-\d{2}$/
const DAY = 24 * 3_600_000

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
  const [hours = 0, ...others] = isClock ? text.split(':').map(Number) : []
  const time = isClock
    ? new Date(now).setHours(hours, others[0], others[1] ?? 0, 0)
    : Date.parse(DATE.test(text) ? `${text}T00:00` : text)
  const isTime = isClock ? hours < 24 && others.every((part) => part < 60) : /^\d{4}-/.test(text)
  if (!isTime || Number.isNaN(time))
    throw new UsageError(`${option} must be a time such as 24h, 10:03 or 2030-01-31T10:03`)
  return isClock && time > now ? time - DAY : time
}
