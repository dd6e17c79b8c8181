const COLUMNS = [
  'private CA',
  'public CA',
  'renewal',
  'ARI window',
  'revocation',
  'name not given',
  'rate limit',
] as const

/** What a client is tried for. */
export type Column = (typeof COLUMNS)[number]

/** What came of it: in one word, and what the client printed. */
interface Cell {
  readonly result: string
  readonly words?: string
}

export type Row = Map<Column, Cell>

/** Writes what came of all trials as Markdown: a table, and what the clients said. */
export function tableOf(rows: ReadonlyMap<string, Row>): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const body = [...rows].map(([title, row]) =>
    line([title, ...COLUMNS.map((column) => row.get(column)?.result ?? '-')]),
  )
  const words = [...rows].flatMap(([title, row]) =>
    [...row].flatMap(([column, { words }]) => (words ? `- ${title}, ${column}: ${words}` : [])),
  )
  const head = [line(['client', ...COLUMNS]), line(['client', ...COLUMNS].map(() => '---'))]
  return [...head, ...body, '', ...words, ''].join('\n')
}
