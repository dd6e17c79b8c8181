import type { SettingTable } from '../../packages/migrate/src/table.ts'

/** Renders a table as Markdown for a guide. */
export function renderSettings(table: SettingTable, program: string): string {
  const rows = table.map(({ names, becomes = 'none', note = '' }) => {
    const cells = [names.map((name) => `\`${name}\``).join(', '), becomes, note]
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`
  })
  return `| ${program} | Gatehouse | |\n| --- | --- | --- |\n${rows.join('')}`
}
