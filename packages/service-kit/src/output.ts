import { escaped } from './telemetry/log.ts'

/** The columns of a table by their titles, with the text that each has for a row, if any. A time is as JSON has it. */
export type TableColumns<Row> = Readonly<Record<string, (row: Row) => string | null | undefined>>

/** The rows that decide how wide the columns are; a longer text further on moves the rest of its line. */
const MEASURED_ROWS = 1_000

const NONE = 'Nothing is listed: there is nothing of that kind, or nothing that you may see.\n'

/**
 * Prints rows as every command does: as a table with a header, or with `json` as an object in each line. If all rows
 * are measured, columns without any text are left out.
 */
export async function* listing<Row extends object>(
  rows: AsyncIterable<Row> | Iterable<Row>,
  columns: TableColumns<Row>,
  { json }: { readonly json?: boolean | undefined },
): AsyncGenerator<string> {
  const titles = Object.keys(columns)
  const measured: string[][] = []
  let line: ((cells: readonly string[]) => string) | undefined
  for await (const row of rows) {
    if (json) {
      yield `${JSON.stringify(row)}\n`
      continue
    }
    const cells = Object.values(columns).map((cell) => shownText(cell(row) ?? ''))
    if (line) yield line(cells)
    else if (measured.push(cells) === MEASURED_ROWS) {
      const table = [titles, ...measured]
      line = lineOf(table)
      yield table.map(line).join('')
    }
  }
  if (json || line) return
  const used = [...titles.keys()].filter((column) => measured.some((cells) => cells[column]))
  const table = [titles, ...measured].map((cells) => used.map((column) => cells[column] ?? ''))
  yield measured.length === 0 ? NONE : table.map(lineOf(table)).join('')
}

/** Writes cells in columns that are as wide as the widest of these lines. */
function lineOf(lines: readonly (readonly string[])[]): (cells: readonly string[]) => string {
  const widths = lines[0]?.map((_, column) =>
    Math.max(...lines.map((cells) => cells[column]?.length ?? 0)),
  )
  return (cells) => {
    const padded = cells.map((cell, column) => cell.padEnd(widths?.[column] ?? 0))
    return `${padded.join('  ').trimEnd()}\n`
  }
}

/** Prints texts behind their labels, but for labels without a text. */
export function labelled(texts: Readonly<Record<string, string | false | undefined>>): string {
  const shown = Object.entries(texts).filter(([, text]) => text)
  const width = Math.max(...shown.map(([label]) => label.length))
  return shown.map(([label, text]) => `${label.padEnd(width)}  ${shownText(text || '')}\n`).join('')
}

/** A time as JSON has it. */
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z$/

const shownText = (text: string) => printable(TIME.test(text) ? localTime(text) : text)

/** Writes a time by the clock of this machine, with its offset, such as `2030-01-31 10:03:00+01:00`. */
export function localTime(time: string): string {
  const date = new Date(time)
  const offset = -date.getTimezoneOffset()
  // What another machine sent may be no time.
  if (Number.isNaN(offset)) return time
  const shifted = new Date(date.getTime() + offset * 60_000).toISOString()
  const distance = new Date(Math.abs(offset) * 60_000).toISOString().slice(11, 16)
  return `${shifted.slice(0, 19).replace('T', ' ')}${offset < 0 ? '-' : '+'}${distance}`
}

/** Cleans a text of another machine for a terminal: short, and in one line. */
export function printable(text: string): string {
  const plain = escaped(text.replace(/[\t\n\r\u2028\u2029]+/g, ' '))
  return plain.length > 500 ? `${plain.slice(0, 500)}…` : plain
}
