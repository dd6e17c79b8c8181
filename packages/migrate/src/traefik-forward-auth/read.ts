import type { Translate } from '../foreign.ts'
import {
  isFlags,
  isVariables,
  mergeRepeated,
  readAssignments,
  readFlags,
  readVariables,
} from '../formats.ts'
import { type RawSetting, readYamlSettings, type SourceSetting } from '../source.ts'
import { VERSION_2 } from './settings.ts'
import { translateVersion2 } from './version-2.ts'
import { asVersion4, translateVersion3 } from './version-3.ts'
import { translateVersion4 } from './version-4.ts'

const FLAGS = VERSION_2.flatMap(({ names }) => names)
const BY_VARIABLE = new Map(
  FLAGS.map((flag) => [flag.toUpperCase().replaceAll(/[.-]/g, '_'), flag]),
)
/** Flags with several values, separated by commas or given several times. */
const isList = (name: string) =>
  /^(cookie-domains?|domain|whitelist|auth[A-Za-z]+_\w+|rule\.[^.]+\.(whitelist|domains))$/.test(
    name,
  )

/**
 * Reads the settings of traefik-forward-auth: the YAML file of version 4 by ItalyPaleAle, that of version 3 or its
 * environment variables, or the INI file, environment variables or flags of version 2 by thomseddon.
 * @throws ConfigError CONFIG_NOT_THEIRS
 */
export async function readTraefikForwardAuth(text: string, file: string): Promise<SourceSetting[]> {
  if (isFlags(text)) return mergeRepeated(readFlags(text).map(asSetting), isList)
  // Other variables than its own have nothing to do with it.
  if (isVariables(text) && text.includes('TFA_'))
    return mergeRepeated(asVersion4(readVariables(text).filter(isOfVersion3)), isList)
  if (isVariables(text))
    return mergeRepeated(
      readVariables(text).flatMap((variable) => {
        const name = BY_VARIABLE.get(variable.spelling)
        return name === undefined ? [] : [{ ...variable, name }]
      }),
      isList,
    )
  if (/^authProvider:/m.test(text))
    return mergeRepeated(asVersion4(readYamlSettings(text, file)), isList)
  if (/^[\w.]+:/m.test(text) && !/^[\w.-]+\s*=/m.test(text)) return readYamlSettings(text, file)
  return mergeRepeated(readAssignments(text, file).map(asSetting), isList)
}

const isOfVersion3 = ({ spelling }: RawSetting) => spelling.startsWith('TFA_')
const asSetting = (setting: RawSetting): SourceSetting => ({ ...setting, name: setting.spelling })

export const translateTraefikForwardAuth: Translate = (source, draft, readFile) => {
  const isNew = ['portals', 'server', 'tokens', 'cookies', 'logs'].some((name) => source.has(name))
  const newer = source.text('authProvider') === undefined ? translateVersion4 : translateVersion3
  return (isNew ? newer : translateVersion2)(source, draft, readFile)
}

const ONLY_THEIRS = [
  /^(tokens|cookies)\./,
  /^server\.(domains|bind|hostname|tls[A-Z])/,
  /^portals\.\d+\.providers\.\d+\.(github|google|microsoftEntraID|openIDConnect|pocketID|tailscaleWhois)\./,
]

/** Whether a setting is one that no configuration of ours has. */
export const isOnlyTraefikForwardAuth = ({ name }: SourceSetting) =>
  ONLY_THEIRS.some((form) => form.test(name)) || FLAGS.includes(name) || name.startsWith('rule.')
