import { Duration } from '@gatehouse/service-kit'
import { Type } from 'typebox'

const LimitSchema = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        count: Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'How many.' }),
        per: Duration({ from: '1s', description: 'Within which time.' }),
      },
      { description },
    ),
  )

/** What an ACME CA allows, where that differs from what is known of it. */
export const LimitsSchema = Type.Object(
  {
    orders: LimitSchema('Orders of the account.'),
    domain: LimitSchema(
      'Certificates per registered domain (public suffix list), IPv4 address or /64 of IPv6.',
    ),
    names: LimitSchema('Certificates for exactly the same names.'),
    failures: LimitSchema('Failed proofs per name.'),
    failuresInARow: LimitSchema('Failed proofs per name since the last certificate for it.'),
    accounts: LimitSchema('Accounts registered from the address of this host.'),
    renewalsExempt: Type.Optional(
      Type.Boolean({
        description: '`orders` and `domain` are not for names that already had a certificate.',
      }),
    ),
  },
  {
    description:
      'Limits of the CA: nothing is ordered that it would refuse. Each one left out is as published for letsencrypt and letsencrypt-staging, and for other CAs none.',
  },
)
