import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { accessByEmail, allOf, allowOf, listOf, PORTAL } from '../forward-auth/access.ts'
import { redirectStep, setCondition, trustEmail } from '../forward-auth/settings.ts'
import type { RawSetting, SourceConfig, SourceSetting } from '../source.ts'
import { RENAMED_IN_4, VERSION_3, VERSION_4 } from './settings.ts'
import { translateVersion4 } from './version-4.ts'

const PROVIDER_4 = 'portals.0.providers.0'
const KINDS = ['github', 'google', 'microsoftEntraID', 'openIDConnect', 'tailscaleWhois']
/** The claims that were the ID of a user. */
const USER_CLAIMS: Readonly<Record<string, string>> = {
  github: 'preferred_username',
  google: 'sub',
  openIDConnect: 'sub',
}
const LISTS = ['allowedUsers', 'allowedEmails', 'allowedDomains']
const NAMES = VERSION_3.flatMap(({ names }) => names)
const KEYS = VERSION_4.flatMap(({ names }) =>
  names.map((name) => name.slice(name.lastIndexOf('.') + 1)),
)

/** Finds a name as the reference spells it: variables are in capitals. */
const spelled = (names: readonly string[], text: string) =>
  names.find((name) => name.toLowerCase() === text.toLowerCase())

/** Names the settings of version 3 as version 4 does. Those of other providers than `authProvider` had no effect. */
export function asVersion4(settings: readonly RawSetting[]): SourceSetting[] {
  const named = settings.map((setting) => {
    const name = setting.spelling.replace(/^TFA_/, '')
    return { ...setting, name: spelled(NAMES, name) ?? name }
  })
  const provider = named.findLast(({ name }) => name === 'authProvider')
  const kind = spelled(KINDS, provider?.values[0]?.replaceAll('-', '') ?? '')
  return named.flatMap((setting) => {
    const [, owner = '', key] = /^auth([a-z]+)_(\w+)$/i.exec(setting.name) ?? []
    if (setting.name === 'authProvider' && kind)
      return [setting, { ...setting, name: `${PROVIDER_4}.${kind}.name`, values: [kind] }]
    if (key === undefined) return [{ ...setting, name: RENAMED_IN_4[setting.name] ?? setting.name }]
    if (!kind || !spelled([kind], owner)) return []
    const list = spelled(LISTS, key)
    if (list !== undefined) return [{ ...setting, name: `auth${kind}_${list}` }]
    return [{ ...setting, name: `${PROVIDER_4}.${kind}.${spelled(KEYS, key) ?? key}` }]
  })
}

/** Translates the settings of ItalyPaleAle/traefik-forward-auth 3, by their names of version 4. */
export const translateVersion3: Translate = (source, draft, readFile) => {
  const steps = translateVersion4(source, draft, readFile)
  const kind = KINDS.find((name) => source.has(`${PROVIDER_4}.${name}`))
  if (kind !== undefined) setAllowed(source, draft, kind)
  return [redirectStep(undefined, ''), ...steps]
}

/** Sets who may come in: whoever is on each of the lists. */
function setAllowed(source: SourceConfig, draft: Draft, kind: string): void {
  const list = (name: string) => source.list(`auth${kind}_${name}`)
  const claim = USER_CLAIMS[kind]
  const users = claim ? list('allowedUsers') : []
  const addresses = list('allowedEmails')
  const emailDomains = list('allowedDomains')
  const allowed = allOf([
    users.length > 0 ? { condition: `claims.${claim} in ${listOf(users)}` } : undefined,
    addresses.length > 0 ? accessByEmail({ domains: [], addresses }) : undefined,
    emailDomains.length > 0 ? { emailDomains } : undefined,
  ])
  if (Object.keys(allowed).length === 0) return
  if (addresses.length > 0 && kind !== 'google') trustEmail(draft, 'unlessFalse')
  setCondition(draft, [...PORTAL, 'allow'], allowOf(allowed), 'The lists of people')
}
