import { AcmeError } from '../../errors.ts'
import { suffixes } from '../lookup.ts'

/**
 * The zone for a name: the one with the longest name of those that the provider has.
 *
 * @throws AcmeError `ACME_DNS_NO_ZONE`
 */
export async function findZone<Zone>(
  name: string,
  find: (zoneName: string) => Promise<Zone | undefined>,
): Promise<Zone> {
  for (const zoneName of suffixes(name)) {
    const zone = await find(zoneName)
    if (zone !== undefined) return zone
  }
  throw new AcmeError('ACME_DNS_NO_ZONE', `there is no zone for ${name}`)
}
