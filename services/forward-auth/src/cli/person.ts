import { readFile } from 'node:fs/promises'
import { type ProviderConfig, profileOf } from '@gatehouse/identity-providers'
import type { Claims, Profile } from '@gatehouse/profile'
import { UsageError } from '@gatehouse/service-kit/program'

/**
 * The person whose claims a file of `--as` holds.
 *
 * @throws UsageError
 */
export async function readPerson(
  file: string,
  provider: ProviderConfig,
  defaults: Claims = {},
): Promise<Profile> {
  const claims = parse(await readFile(file, 'utf8'))
  if (typeof claims === 'object' && claims !== null && !Array.isArray(claims))
    return profileOf(provider, { ...defaults, ...claims })
  throw new UsageError(`${file} holds no JSON object of claims`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The same fault as a value that is no object.
    return undefined
  }
}
