import {
  type ConfigFault,
  Draft,
  Given,
  type GivenSetting,
  notTheirs,
  remarkOnRest,
  rowOf,
  type SettingTable,
} from '@gatehouse/service-kit'
import { translateOauth2Proxy } from './oauth2-proxy.ts'
import { readOauth2Proxy } from './oauth2-proxy-read.ts'
import { OAUTH2_PROXY } from './oauth2-proxy-settings.ts'
import {
  isOnlyTraefikForwardAuth,
  readTraefikForwardAuth,
  translateTraefikForwardAuth,
} from './traefik-forward-auth.ts'
import { VERSION_2, VERSION_4 } from './traefik-forward-auth-settings.ts'
import { refuseAll, type Translate, type TranslateDeps } from './translation.ts'

/** A program that people move from. */
export interface Foreign {
  /** Its settings, by the version whose reference they are from. */
  readonly tables: Readonly<Record<string, SettingTable>>
  /** @throws ConfigError CONFIG_NOT_THEIRS */
  readonly read: (text: string, file: string) => Promise<readonly GivenSetting[]>
  readonly translate: Translate
  /** Whether a setting is one that no configuration of ours has. */
  readonly isOnlyTheirs: (setting: GivenSetting) => boolean
}

/** The programs that people move from, by name. */
export const FOREIGN = {
  'oauth2-proxy': {
    tables: { 'oauth2-proxy 7.15': OAUTH2_PROXY },
    read: readOauth2Proxy,
    translate: translateOauth2Proxy,
    isOnlyTheirs: () => true,
  },
  'traefik-forward-auth': {
    tables: {
      'traefik-forward-auth 4': VERSION_4,
      'thomseddon/traefik-forward-auth 2': VERSION_2,
    },
    read: readTraefikForwardAuth,
    translate: translateTraefikForwardAuth,
    isOnlyTheirs: isOnlyTraefikForwardAuth,
  },
} as const satisfies Readonly<Record<string, Foreign>>

export type ForeignName = keyof typeof FOREIGN

export interface MigrateDeps extends TranslateDeps {
  /** The faults of a configuration whose secrets may be absent. */
  readonly check: (yaml: string) => Promise<readonly ConfigFault[]>
}

/** What became of a configuration. */
export interface Migrated {
  readonly yaml: string
  /** How many places are marked, which a person has to decide about. */
  readonly todos: number
}

/**
 * Our configuration for that of another program. Where it cannot say the same, it lets nobody in who was kept
 * out: such places are marked, and `check-config` refuses the file until they are gone.
 * @throws ConfigError CONFIG_NOT_THEIRS
 */
export async function migrate(
  name: ForeignName,
  { text, file }: { readonly text: string; readonly file: string },
  { check, ...deps }: MigrateDeps,
): Promise<Migrated> {
  const { tables, read, translate }: Foreign = FOREIGN[name]
  const table = Object.values(tables).flat()
  const all = await read(text, file)
  if (!all.some((setting) => rowOf(table, setting.name)))
    throw notTheirs(file, 1, `has no setting of ${name}`)
  const given = new Given(all)
  const draft = new Draft()
  const { steps } = translate(given, draft, deps)
  const lost = remarkOnRest(given, draft, table)
  if (lost.length > 0) refuseAll(draft, lostText(lost))
  const texts = {
    title: `The configuration of forward-auth, made of that of ${name}: ${file}`,
    steps,
  }
  for (const { path, message } of await check(draft.print(texts))) {
    const at = path
      .split('/')
      .slice(1)
      .map((part) => (/^\d+$/.test(part) ? Number(part) : part))
    const last = at.at(-1) ?? 'the file'
    const what = typeof last === 'number' ? `item ${last + 1}` : last
    if (!draft.isMarked(at)) draft.todo(at, `${what} ${message}.`)
  }
  return { yaml: draft.print(texts), todos: draft.todos }
}

function lostText(lost: readonly GivenSetting[]): string {
  const names = lost.map(({ written, line }) => `${written} (line ${line})`).join(', ')
  return `${names} may keep people out, and cannot be translated: say who may come in.`
}

/** The program whose configuration a file is: at least two settings, and half of all, are its own. */
export async function recognise(text: string, file: string): Promise<ForeignName | undefined> {
  for (const [name, { tables, read, isOnlyTheirs }] of Object.entries<Foreign>(FOREIGN)) {
    const table = Object.values(tables).flat()
    const settings = await read(text, file).catch(() => [])
    const known = settings.filter((setting) => rowOf(table, setting.name))
    if (known.length * 2 >= settings.length && known.filter(isOnlyTheirs).length > 1)
      return name as ForeignName
  }
  return undefined
}
