import { readFile } from 'node:fs/promises'
import { type ProviderConfig, profileOf } from '@gatehouse/identity-providers'
import { isObject, parseJson } from '@gatehouse/net'
import type { Claims, Profile } from '@gatehouse/profile'
import { hintAt, UsageError } from '@gatehouse/service-kit/program'

/** The beginning of the names of API keys. */
export const KEY = 'psk:'

/**
 * The person whose claims a file holds.
 *
 * @param text - of `--as`: a file, behind the name of the provider unless that is the first one: `corp:ada.json`
 * @throws UsageError
 */
export async function readPerson(
  text: string,
  providers: readonly ProviderConfig[],
  defaults: Claims = {},
): Promise<Profile> {
  const prefixProvider = providers.find(({ name }) => text.startsWith(`${name}:`))
  const file = prefixProvider ? text.slice(prefixProvider.name.length + 1) : text
  const provider = prefixProvider ?? providers[0]
  const claims = parseJson(await readFile(file, 'utf8'))
  if (provider && isObject(claims)) return profileOf(provider, { ...defaults, ...claims })
  throw new UsageError(`${file} holds no JSON object of claims`)
}

/** The portal that an option names, or the only one. @throws UsageError */
export function onePortal<P extends { readonly name: string }>(
  portals: Iterable<P>,
  name: string | undefined,
): P {
  const list = [...portals]
  const [portal, other] = list.filter((each) => name === undefined || each.name === name)
  if (portal && !other) return portal
  const names = list.map((each) => each.name)
  throw new UsageError(`--portal must be one of ${names.join(', ')}${hintAt(name ?? '', names)}`)
}
