import type { Draft } from './draft.ts'
import type { SourceConfig, SourceSetting } from './source.ts'
import type { SettingTable } from './table.ts'

export type Service = 'cert-service' | 'forward-auth'

/** A program that people move from. */
export interface Foreign {
  /** Our service, whose configuration it becomes. */
  readonly service: Service
  /** The tables of its settings, by the version whose reference they are from. */
  readonly tables: Readonly<Record<string, SettingTable>>
  /** @throws ConfigError CONFIG_NOT_THEIRS */
  readonly read: (text: string, file: string) => Promise<readonly SourceSetting[]>
  readonly translate: Translate
  /** Marks the draft so that nobody comes in before a person has decided. */
  readonly refuse: (draft: Draft, why: string) => void
  /** Whether a setting is one that no configuration of ours has. */
  readonly isOnlyTheirs: (setting: SourceSetting) => boolean
}

/** Translates the settings of a program into a draft, and gives steps for the operator, each a sentence. */
export type Translate = (source: SourceConfig, draft: Draft, readFile: ReadFile) => string[]

/** Reads a file that the settings name; undefined if it cannot be read. */
export type ReadFile = (file: string) => string | undefined
