import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { loadForwardAuthConfig } from '../../../services/forward-auth/src/config/load.ts'
import type { ForwardAuthConfig } from '../../../services/forward-auth/src/config/schema.ts'
import { migrate } from '../src/migrate.ts'

export interface Translated {
  readonly yaml: string
  readonly todos: number
  /** As it is written; `printed.portals[0]` and so on. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it expects
  readonly printed: any
  /** As the service reads it; undefined if `check-config` refuses it. */
  readonly config: ForwardAuthConfig | undefined
  /** JSON pointers of what `check-config` refuses. */
  readonly refused: readonly string[]
}

/** Migrates files of other programs by the command, and has `check-config` read what it prints. */
export function migration(t: Test, name: 'authelia' | 'oauth2-proxy' | 'traefik-forward-auth') {
  const folder = testFolder(t)
  return async (
    text: string,
    beside: Readonly<Record<string, string>> = {},
  ): Promise<Translated> => {
    for (const [file, content] of Object.entries(beside)) writeFileSync(join(folder, file), content)
    const file = join(folder, 'theirs')
    writeFileSync(file, text)
    const { yaml, todos } = await migrate(name, file, loadForwardAuthConfig)
    const ours = join(folder, 'config.yaml')
    writeFileSync(ours, yaml)
    const outcome = { yaml, todos, printed: parse(yaml) }
    try {
      const options = { beforeStart: true, withoutSecrets: true }
      const { value } = await loadForwardAuthConfig(ours, {}, options)
      return { ...outcome, config: value, refused: [] }
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return { ...outcome, config: undefined, refused: error.faults.map(({ path }) => path) }
    }
  }
}

/** Whether each place that is refused is marked, or is below one that is. */
export function areMarked({ yaml, todos, refused }: Translated): boolean {
  const marked = yaml.match(/TODO: /g)?.length ?? 0
  return marked === todos && refused.length > 0 === todos > 0
}
