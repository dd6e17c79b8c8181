import { compilePattern } from '@gatehouse/gate'
import { durationOf } from '@gatehouse/service-kit/config'
import { printable, UsageError } from '@gatehouse/service-kit/program'
import type { AuditRow } from '../store/store.ts'

interface AuditQuery {
  readonly rows: AsyncIterable<AuditRow>
  readonly portal?: string | undefined
  /** `<provider>:<identifier>`, or the identifier alone. */
  readonly person?: string | undefined
  /** A pattern, in which `*` stands for any text. */
  readonly tool?: string | undefined
  /** Client ID, or its host. */
  readonly client?: string | undefined
  readonly asJson: boolean
}

/** The rows of the audit trail that a query selects, as lines. */
export async function* listAudit(query: AuditQuery): AsyncGenerator<string> {
  const { rows, portal, person, tool, client, asJson } = query
  const fitsTool = tool === undefined ? undefined : compilePattern(tool)
  if (!asJson) yield cellsOf(TITLES)
  for await (const row of rows) {
    if (portal !== undefined && row.portal !== portal) continue
    // A row that stands for several may stand for what is looked for.
    if (person !== undefined && row.person !== '*' && !isOf(person, row)) continue
    if (fitsTool && row.tool !== '*' && !(row.tool !== undefined && fitsTool(row.tool))) continue
    if (client !== undefined && row.client !== '*' && !isFrom(client, row)) continue
    yield asJson ? `${JSON.stringify(row)}\n` : lineOf(row)
  }
}

function isOf(wanted: string, { person, provider }: AuditRow): boolean {
  return person === wanted || person === `${provider}:${wanted}`
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
  ['person', 'PERSON', 18],
  ['host', 'HOST', 18],
  ['client', 'CLIENT', 15],
  ['what', 'TOOL, CODE', 0],
] as const
const TITLES = Object.fromEntries(COLUMNS.map(([column, title]) => [column, title]))

type Shown = Readonly<Partial<Record<(typeof COLUMNS)[number][0], string | undefined>>>

function lineOf(row: AuditRow): string {
  const { person = row.provider, client = row.clientAddress, tool, code, count } = row
  const what = [tool, code, count && `x${count}`].filter(Boolean).join(' ') || undefined
  // Without milliseconds.
  const time = row.time.replace(/\.\d+/, '')
  return cellsOf({ ...row, time, person, client: hostOf(row) || client, what })
}

function cellsOf(shown: Shown): string {
  const cells = COLUMNS.map(([column, , width]) => printable(shown[column] ?? '-').padEnd(width))
  return `${cells.join('  ').trimEnd()}\n`
}

/** @throws UsageError */
export function readSince(text: string, now: number): number {
  const span = durationOf(text)
  if (span !== undefined) return now - span
  throw new UsageError('--since must be a duration such as 30m, 24h or 7d')
}
