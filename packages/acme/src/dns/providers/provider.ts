import type { BoundedFetch, Clock } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { type Static, type TProperties, type TSchema, type TStringOptions, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { suffixes } from '../lookup.ts'

/** The TXT record that answers a challenge. */
export interface DnsRecord {
  /** The end of its chain of CNAME records, in lower case and without the last dot. */
  readonly name: string
  readonly value: string
  /** The name that is validated, without `*.`. */
  readonly domain: string
  readonly token: string
  readonly keyAuthorization: string
}

/**
 * Changes TXT records. Both methods may be called again for the same record and leave other values
 * at the name alone. They are never called twice at once for one name.
 */
export interface DnsProvider {
  /** @throws AcmeError `ACME_DNS_NO_ZONE`, `ACME_DNS_CREDENTIALS`, `ACME_DNS_PROVIDER` */
  present(record: DnsRecord, signal: AbortSignal): Promise<void>
  cleanUp(record: DnsRecord, signal: AbortSignal): Promise<void>
  /**
   * Reads what `present` would change at the name, to test zone and credentials. Absent if the
   * provider has nothing to read.
   * @throws AcmeError as `present` does
   */
  check?(name: string, signal: AbortSignal): Promise<void>
}

/** @throws AcmeError `ACME_DNS_NO_PROVIDER` */
export type ChooseDnsProvider = (name: Name) => DnsProvider

export interface DnsProviderDeps {
  readonly fetch: BoundedFetch
  readonly clock: Clock
}

/** Makes a provider of options that the schema has checked. */
export type CreateDnsProvider<Options extends TSchema> = (
  config: Static<Options>,
  deps: DnsProviderDeps,
) => DnsProvider

/** Seconds: as short as every provider allows. */
export const TTL_SECONDS = 60

/** Finds the provider's zone with the longest name that holds the given name. */
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

const Text = (description: string, options: TStringOptions = {}) =>
  Type.String({ minLength: 1, description, ...options })

/** Kinds of options. The loader of the configuration reads `secret`, `duration` and `filePath`. */
export const Option = {
  Text,
  /** A string that never appears in errors; `<key>File` may name a file that holds it instead. */
  Secret: (description: string, options: TStringOptions = {}) =>
    Text(description, { ...options, secret: true }),
  /** A path; a relative one is resolved against the folder of the configuration file. */
  FilePath: (description: string) => Text(description, { filePath: true }),
  /** The URL of an API; sovereign clouds and tests have others. */
  Endpoint: (fallback: string) => Text('URL of the API.', { default: fallback }),
  /** A time span such as `30s` or `5m`, loaded as milliseconds. */
  Duration: (description: string, fallback: string) =>
    Type.Unsafe<number>({
      type: 'string',
      pattern: '^(0|[1-9][0-9]{0,5})(ms|s|m|h|d)$',
      duration: true,
      default: fallback,
      description,
    }),
}

/** Options of every provider. */
const commonOptions = {
  names: Type.Optional(
    Type.Array(Text('A name rule.'), {
      minItems: 1,
      description:
        'Name rules for the names that this provider handles. A wildcard certificate counts as its name without `*.`. ' +
        'The first matching provider is used. Default: all names.',
    }),
  ),
}

/** The schema of a provider's options, with those that all providers have. */
export const defineOptions = <T extends string, P extends TProperties>(
  type: T,
  options: P,
  rules = {},
) => Type.Object({ type: Type.Literal(type), ...commonOptions, ...options }, rules)
