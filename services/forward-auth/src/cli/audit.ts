import { AUTH_ERRORS } from '@gatehouse/auth-core'
import { compilePattern } from '@gatehouse/gate'
import {
  hintAt,
  listing,
  localTime,
  printable,
  type TableColumns,
} from '@gatehouse/service-kit/program'
import { ERRORS } from '../errors.ts'
import type { AuditRow } from '../store/store.ts'

type Option = 'portal' | 'event' | 'request' | 'host' | 'person' | 'tool' | 'client'

/** Whether an option selects a row. Where a row has `*`, it may stand for what is looked for. */
const OPTIONS: Readonly<Record<Option, (row: AuditRow, text: string) => boolean>> = {
  portal: ({ portal }, text) => portal === text,
  event: ({ event }, text) => event === text,
  request: ({ requestId }, text) => requestId === text,
  host: ({ host }, text) => host === text || host === '*',
  /** Matches a person by the identifier, with or without the provider, or by a name in lower or upper case. */
  person: (row, text) =>
    ['*', text, `${row.provider}:${text}`].includes(row.person ?? '') ||
    aliasesOf(row).some((alias) => alias.toLowerCase() === text.toLowerCase()),
  tool: ({ tool }, text) => tool !== undefined && (tool === '*' || compilePattern(text)(tool)),
  /** Matches a client by its ID or its host. */
  client: (row, text) => [row.client, ...hostsOf(row)].includes(text) || row.client === '*',
}

type Filters = Readonly<Partial<Record<Option, string | undefined>>>

interface AuditQuery extends Filters {
  readonly rows: AsyncIterable<AuditRow>
  /** Whether refusals and ends alone are told, each with its reasons. */
  readonly asStory?: boolean
  readonly json?: boolean | undefined
}

/** Whether a row is about a person who is called so. */
export const isAbout = OPTIONS.person

/** The rows of the audit trail that a query selects, as lines. Rejects at the end if it names somebody and finds none. */
export async function* listAudit({
  rows,
  asStory = false,
  json,
  ...filters
}: AuditQuery): AsyncGenerator<string> {
  const matches = matching(rows, filters, asStory)
  if (json || !asStory) return yield* listing(matches, COLUMNS, { json })
  for await (const row of matches) yield storyOf(row)
}

/** The names that are remembered, to tell the nearest where nobody fits. */
export const MAX_NAMES = 10_000

async function* matching(
  rows: AsyncIterable<AuditRow>,
  filters: Filters,
  asStory: boolean,
): AsyncGenerator<AuditRow> {
  const { person, request, host } = filters
  const people = new Set<string>()
  const texts = Object.entries(filters) as [Option, string | undefined][]
  let isFound = !asStory && (person ?? request) === undefined
  for await (const row of rows) {
    if (person !== undefined && people.size < MAX_NAMES)
      for (const name of [...aliasesOf(row), row.person ?? '']) people.add(name)
    const isMatch = texts.every(([name, text]) => text === undefined || OPTIONS[name](row, text))
    if (!isMatch || (asStory && (row.code ?? row.endedBy) === undefined)) continue
    isFound = true
    yield row
  }
  if (isFound) return
  const subject = person ?? request ?? host ?? 'anybody'
  const hint = hintAt(subject, [...people])
  throw new Error(`the audit trail has nothing of that time about ${printable(subject + hint)}`)
}

/** The names of the person of a row, beside the identifier. */
export function aliasesOf({ username, email, name }: AuditRow): readonly string[] {
  return [email, username, name].filter((alias) => alias !== undefined)
}

/** The host of a client ID that is a URL: with its port, and without. */
function hostsOf({ client = '' }: AuditRow): readonly string[] {
  const url = URL.parse(client)
  return url ? [url.host, url.hostname] : []
}

const COLUMNS: TableColumns<AuditRow> = {
  TIME: ({ time }) => time,
  EVENT: ({ event }) => event,
  PERSON: (row) => whoOf(row) ?? row.provider,
  HOST: ({ host }) => host,
  CLIENT: (row) => hostsOf(row)[0] || row.client,
  FROM: ({ clientAddress }) => clientAddress,
  PORTAL: ({ portal }) => portal,
  DETAILS: detailsOf,
}

function detailsOf(row: AuditRow): string {
  const { tool, code, count, outcome, duration } = row
  const result = outcome && `${outcome} in ${duration} ms`
  const details = [tool, result, code, reasonOf(row) ?? enderOf(row), count && `x${count}`]
  return details.filter(Boolean).join(' ')
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

/** Tells who was refused what, when, where and why, or whose session ended. */
function storyOf(row: AuditRow): string {
  const { event, host, method, path, code, groups, clientAddress, tool, endedBy } = row
  const { title, action } = ERROR_TEXTS[code ?? ''] ?? {}
  const circumstances = [
    ['at', host],
    ['by', method && `${method} ${path ?? ''}`],
    ['calling', tool],
    ['from', clientAddress],
  ]
  const lines = [
    `${localTime(row.time)}  ${event}: ${whoOf(row) ?? 'somebody who is not signed in'}`,
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
