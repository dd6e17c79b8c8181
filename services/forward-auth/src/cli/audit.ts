import { durationOf } from '@gatehouse/service-kit/config'
import { UsageError } from '@gatehouse/service-kit/program'
import type { AuditRow } from '../store/store.ts'

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
    yield asJson ? `${JSON.stringify(row)}\n` : lineOf(row)
  }
}

function isOf(wanted: string, { person, provider }: AuditRow): boolean {
  return person === wanted || person === `${provider}:${wanted}`
}

type Column = Exclude<keyof AuditRow, 'provider' | 'name' | 'requestId' | 'refusedBy' | 'clause'>

const TITLES: Readonly<Record<Column, string>> = {
  time: 'TIME',
  event: 'EVENT',
  portal: 'PORTAL',
  person: 'PERSON',
  host: 'HOST',
  clientAddress: 'CLIENT',
  code: 'CODE',
}
/** Characters of each column; longer values move the rest of their line. */
const WIDTHS: Readonly<Record<Column, number>> = {
  time: 20,
  event: 15,
  portal: 10,
  person: 28,
  host: 28,
  clientAddress: 15,
  code: 0,
}

function lineOf(row: Readonly<Partial<Record<Column | 'provider', string | undefined>>>): string {
  const { time = '', person = row.provider } = row
  // Without milliseconds.
  const shown = { ...row, person, time: time.replace(/\.\d+/, '') }
  const cells = Object.entries(WIDTHS).map(([column, width]) =>
    printable(shown[column as Column] ?? '-').padEnd(width),
  )
  return `${cells.join('  ').trimEnd()}\n`
}

/** A provider may give a person any identifier, and a terminal obeys control characters. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}')
}

/** @throws UsageError */
export function readSince(text: string, now: number): number {
  const span = durationOf(text)
  if (span !== undefined) return now - span
  throw new UsageError('--since must be a duration such as 30m, 24h or 7d')
}
