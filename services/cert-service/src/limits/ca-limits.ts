import type { IssuerConfig } from '../config/issuers.ts'
import { directoryOf } from '../config/issuers.ts'
import type { Limit } from './bucket.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** The limits of one CA; one that is absent is not known, or none. */
export interface CaLimits {
  /** Orders of the account. */
  readonly orders?: Limit | undefined
  /** Certificates for a registered domain, an IPv4 address, or a /64 of IPv6. */
  readonly domain?: Limit | undefined
  /** Certificates for exactly the same names. */
  readonly names?: Limit | undefined
  /** Proofs of a name that failed. */
  readonly failures?: Limit | undefined
  /** Proofs of a name that failed with none between them that did not. */
  readonly failuresInARow?: Limit | undefined
  /** Accounts registered from one address. */
  readonly accounts?: Limit | undefined
  /** Whether `orders` and `domain` are not for names that already had a certificate. */
  readonly renewalsExempt?: boolean | undefined
}

/** As the CAs published them, November 2026. */
const PUBLISHED: Readonly<Record<string, CaLimits>> = {
  [directoryOf('letsencrypt')]: {
    orders: { count: 300, per: 3 * HOUR },
    domain: { count: 50, per: 7 * DAY },
    names: { count: 5, per: 7 * DAY },
    failures: { count: 5, per: HOUR },
    // Who uses these up is paused until a person goes to a page of the CA.
    failuresInARow: { count: 1_152, per: 1_152 * DAY },
    accounts: { count: 10, per: 3 * HOUR },
    renewalsExempt: true,
  },
  [directoryOf('letsencrypt-staging')]: {
    orders: { count: 1_500, per: 3 * HOUR },
    failures: { count: 200, per: HOUR },
    renewalsExempt: true,
  },
}

/** What is configured, and for the rest what the CA published. */
export function caLimitsOf({ directory, limits }: IssuerConfig): CaLimits {
  return { ...PUBLISHED[directoryOf(directory)], ...limits }
}
