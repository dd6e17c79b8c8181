import { printable } from '@gatehouse/service-kit/program'

/** Columns as wide as their widest cell; columns without any cell are left out. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(printable))
  const used = head.map((_, column) => column).filter((column) => cells.some((row) => row[column]))
  const lengths = (column: number) => [head, ...cells].map((row) => (row[column] ?? '').length)
  const widths = head.map((_, column) => Math.max(...lengths(column)))
  const line = (row: readonly string[]) => {
    const texts = used.map((column) => (row[column] ?? '').padEnd(widths[column] ?? 0))
    return `${texts.join('  ').trimEnd()}\n`
  }
  return [head, ...cells].map(line).join('')
}

/** Names the first of some, and says how many there are more. */
export function firstOf(names: readonly string[], count: number): string {
  const more = names.length - count
  return `${names.slice(0, count).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

export function labelled(values: Readonly<Record<string, string>>): string {
  const width = Math.max(...Object.keys(values).map(({ length }) => length))
  return Object.entries(values)
    .map(([label, value]) => `${label.padEnd(width)}  ${printable(value)}\n`)
    .join('')
}
