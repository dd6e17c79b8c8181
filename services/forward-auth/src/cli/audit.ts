import { durationOf } from '@gatehouse/service-kit/config'
import { UsageError } from '@gatehouse/service-kit/program'
import type { AuditRow } from '../store/store.ts'
import { jsonLine, printable } from './printable.ts'

interface AuditQuery {
  readonly rows: AsyncIterable<AuditRow>
  readonly portal?: string | undefined
  /** `<provider>:<identifier>`, or the identifier alone. */
  readonly person?: string | undefined
  readonly asJson: boolean
}

/** The rows of the audit trail that a query selects, as lines. */
export async function* listAudit(query: AuditQuery): AsyncGenerator<string> {
  const { rows, portal, person, asJson } = query
  if (!asJson) yield lineOf(TITLES)
  for await (const row of rows) {
    if (portal !== undefined && row.portal !== portal) continue
    if (person !== undefined && !isOf(person, row)) continue
    yield asJson ? jsonLine(row) : lineOf(row)
  }
}

function isOf(wanted: string, { person, provider }: AuditRow): boolean {
  return person === wanted || person === `${provider}:${wanted}`
}

type Column = 'time' | 'event' | 'portal' | 'person' | 'host' | 'clientAddress' | 'code'

/** The columns with their titles and widths, in characters. Longer values move the rest of their line. */
const COLUMNS: readonly (readonly [column: Column, title: string, width: number])[] = [
  ['time', 'TIME', 20],
  ['event', 'EVENT', 15],
  ['portal', 'PORTAL', 10],
  ['person', 'PERSON', 28],
  ['host', 'HOST', 28],
  ['clientAddress', 'CLIENT', 15],
  ['code', 'CODE', 0],
]
const TITLES = Object.fromEntries(COLUMNS.map(([column, title]) => [column, title]))

function lineOf(row: Readonly<Partial<Record<Column | 'provider', string | undefined>>>): string {
  const { time = '', person = row.provider } = row
  // Without milliseconds.
  const shown = { ...row, person, time: time.replace(/\.\d+/, '') }
  const cells = COLUMNS.map(([column, , width]) => printable(shown[column] ?? '-').padEnd(width))
  return `${cells.join('  ').trimEnd()}\n`
}

/** @throws UsageError */
export function readSince(text: string, now: number): number {
  const span = durationOf(text)
  if (span !== undefined) return now - span
  throw new UsageError('--since must be a duration such as 30m, 24h or 7d')
}
