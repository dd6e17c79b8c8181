import { hintAt } from '@gatehouse/service-kit/program'
import type { Draft } from './draft.ts'
import type { SourceConfig, SourceSetting } from './source.ts'

/** Settings of another program that have the same fate. */
export interface SettingRow {
  /** The names as their reference spells them; `$` stands for the number of an item, `*` for any name. */
  readonly names: readonly string[]
  /** The keys of our configuration, in Markdown. Without it, `note` says why there is none. */
  readonly becomes?: string
  readonly note?: string
  /** Whether it keeps people out, so that nobody may come in before a person has decided about it. */
  readonly restricts?: boolean
}

export type SettingTable = readonly SettingRow[]

export const words = (text: string) => text.split(/\s+/).filter(Boolean)

/** The translation of settings, with a note; or the note alone. */
type Fate = readonly [becomes: string, note?: string] | string | Omit<SettingRow, 'names'>

/** Makes a table of the fates of settings, whose names are separated by white space. */
export function settings(fates: Readonly<Record<string, Fate>>): SettingTable {
  return Object.entries(fates).map(([names, fate]) => {
    const row = typeof fate === 'string' ? { note: fate } : fate
    if (!(0 in row)) return { names: words(names), ...row }
    const [becomes, note] = row
    return { names: words(names), becomes, ...(note !== undefined && { note }) }
  })
}

/** A variable that a shell, a compose file or Kubernetes replaces. */
const VARIABLE = /\$[{(]\w/

export function rowOf(table: SettingTable, name: string): SettingRow | undefined {
  return table.find(({ names }) => names.some((pattern) => patternOf(pattern).test(name)))
}

function patternOf(name: string): RegExp {
  const parts = name.split('.').map((part) => {
    if (part === '$') return '\\d+'
    const escaped = part.replaceAll(/[^\w*]/g, '\\$&')
    return escaped.replace('**', '.+').replaceAll('*', '[^.]+')
  })
  return new RegExp(`^${parts.join('\\.')}$`)
}

/** Says what becomes of the settings that the translation did not use, and gives those that may keep people out. */
export function remarkOnUnused(
  source: SourceConfig,
  draft: Draft,
  table: SettingTable,
): readonly SourceSetting[] {
  const sections = new Set<SettingRow>()
  return source.settings.filter((setting) => {
    if (setting.values.some((value) => VARIABLE.test(value)))
      draft.remark(setting, 'holds a variable, which is not replaced: write its value in its place')
    const row = rowOf(table, setting.name)
    if (!row) {
      const candidates = table.flatMap(({ names }) => names)
      draft.remark(setting, `is not a known setting${hintAt(setting.name, candidates)}`)
      return true
    }
    if (source.isTaken(setting)) return false
    if (sections.has(row)) return false
    if (row.names.some((name) => name.endsWith('.**'))) sections.add(row)
    const isEmpty = setting.values.every((value) => value === '')
    draft.remark(setting, (row.note ?? 'is not needed here').replaceAll('`', ''))
    return row.restricts === true && !isEmpty && setting.values[0] !== 'false'
  })
}
