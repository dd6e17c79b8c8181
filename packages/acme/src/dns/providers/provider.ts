import type { BoundedFetch } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { Type } from 'typebox'
import type { Clock } from '../../clock.ts'
import { Text } from '../schema.ts'

/** A TXT record that answers a challenge. */
export interface DnsRecord {
  /** Where it goes, after CNAME records; in lower case and without the last dot. */
  readonly name: string
  readonly value: string
  /** The challenge itself, for programs that make the record of it. */
  readonly domain: string
  readonly token: string
  readonly keyAuthorization: string
}

/**
 * Who can change TXT records. Both methods may be called again for the same record, and leave
 * other values at the name alone. One name is never changed twice at once.
 */
export interface DnsProvider {
  /** @throws AcmeError `ACME_DNS_NO_ZONE`, `ACME_DNS_CREDENTIALS`, `ACME_DNS_PROVIDER`, `ACME_DNS_PROGRAM` */
  present(record: DnsRecord, signal: AbortSignal): Promise<void>
  cleanUp(record: DnsRecord, signal: AbortSignal): Promise<void>
  /**
   * Reads what `present` would change at the name, which tells whether zone and credentials are
   * right. Absent where nothing can be read.
   *
   * @throws AcmeError as `present`
   */
  check?(name: string, signal: AbortSignal): Promise<void>
}

/** @throws AcmeError `ACME_DNS_NO_PROVIDER` */
export type ChooseDnsProvider = (name: Name) => DnsProvider

/** What a provider needs from outside; tests replace it. */
export interface DnsProviderDeps {
  readonly fetch: BoundedFetch
  readonly clock: Clock
}

/** What every kind of provider takes. */
export const commonOptions = {
  names: Type.Optional(
    Type.Array(Text('A name rule.'), {
      minItems: 1,
      description:
        'Name rules of the names it is for; a wildcard certificate counts as the name without `*.`. The first provider that fits is taken. Left out: all names.',
    }),
  ),
}

/** As short as every provider allows. */
export const TTL_SECONDS = 60
