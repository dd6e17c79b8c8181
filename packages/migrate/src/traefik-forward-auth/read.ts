import type { Translate } from '../foreign.ts'
import {
  isFlags,
  isVariables,
  joined,
  readAssignments,
  readFlags,
  readVariables,
} from '../formats.ts'
import { type GivenSetting, readYamlSettings, type Written } from '../given.ts'
import { VERSION_2 } from './settings.ts'
import { translateVersion2 } from './version-2.ts'
import { translateVersion4 } from './version-4.ts'

const FLAGS = VERSION_2.flatMap(({ names }) => names)
const BY_VARIABLE = new Map(
  FLAGS.map((flag) => [flag.toUpperCase().replaceAll(/[.-]/g, '_'), flag]),
)
/** Flags with several values, separated by commas or given several times. */
const isList = (name: string) =>
  /^(cookie-domains?|domain|whitelist|rule\.[^.]+\.(whitelist|domains))$/.test(name)

/**
 * Reads the settings of traefik-forward-auth: the YAML file of version 4 by ItalyPaleAle, or the INI file,
 * environment variables or flags of version 2 by thomseddon.
 * @throws ConfigError CONFIG_NOT_THEIRS
 */
export async function readTraefikForwardAuth(text: string, file: string): Promise<GivenSetting[]> {
  if (isFlags(text)) return joined(readFlags(text).map(asWritten), isList)
  // Other variables than its own have nothing to do with it.
  if (isVariables(text))
    return joined(
      readVariables(text).flatMap((one) => {
        const name = BY_VARIABLE.get(one.written)
        return name === undefined ? [] : [{ ...one, name }]
      }),
      isList,
    )
  if (/^[\w.]+:/m.test(text) && !/^[\w.-]+\s*=/m.test(text)) return readYamlSettings(text, file)
  return joined(readAssignments(text, file).map(asWritten), isList)
}

const asWritten = (setting: Written): GivenSetting => ({ ...setting, name: setting.written })

export const translateTraefikForwardAuth: Translate = (given, draft, readFile) => {
  const isNew = ['portals', 'server', 'tokens', 'cookies', 'logs'].some((name) => given.has(name))
  return (isNew ? translateVersion4 : translateVersion2)(given, draft, readFile)
}

const ONLY_THEIRS = [
  /^(tokens|cookies)\./,
  /^server\.(domains|bind|hostname|tls[A-Z])/,
  /^portals\.\d+\.providers\.\d+\.(github|google|microsoftEntraID|openIDConnect|pocketID|tailscaleWhois)\./,
]

/** Whether a setting is one that no configuration of ours has. */
export const isOnlyTraefikForwardAuth = ({ name }: GivenSetting) =>
  ONLY_THEIRS.some((form) => form.test(name)) || FLAGS.includes(name) || name.startsWith('rule.')
