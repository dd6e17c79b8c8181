/** What can go wrong with the answer to a challenge: part of the table of this package. */
export const CHALLENGE_ERRORS = {
  ACME_DNS_MESSAGE: {
    title: 'DNS message is not valid',
    action:
      'See whether a name server answers at that address, and whether the name is a DNS name.',
  },
  ACME_DNS_UNREACHABLE: {
    title: 'No name server answers',
    action:
      'See whether the resolver and the name servers of the zone can be reached from here, by UDP and TCP, or name other resolvers.',
  },
  ACME_DNS_LOOKUP: {
    title: 'Name cannot be looked up',
    action:
      'See whether the zone is delegated and its name servers answer for it, and whether DNSSEC is in order.',
  },
  ACME_DNS_CNAME: {
    title: 'CNAME records cannot be followed',
    action:
      'Point the CNAME of `_acme-challenge` at a name of letters, digits, hyphens and underscores that has no CNAME itself.',
  },
  ACME_DNS_PROPAGATION: {
    title: 'Record did not reach every name server in time',
    action:
      'See whether the name servers of the zone get their updates; raise the time limit, or choose other resolvers or a plain wait.',
  },
  ACME_DNS_NO_PROVIDER: {
    title: 'No DNS provider is configured for the name',
    action: 'Add a DNS provider whose `names` hold the name.',
  },
  ACME_DNS_NO_ZONE: {
    title: 'DNS provider has no zone for the name',
    action:
      'See whether the credentials may see the zone, or delegate `_acme-challenge` by CNAME to a zone that they may change.',
  },
  ACME_DNS_CREDENTIALS: {
    title: 'DNS provider does not accept the credentials',
    action: 'Renew the credentials, and grant them the right to edit TXT records of the zone.',
  },
  ACME_DNS_PROVIDER: {
    title: 'DNS provider refused the change',
    action: 'Read the detail: the provider gave a reason of its own.',
  },
  ACME_DNS_PROGRAM: {
    title: 'DNS program failed',
    action: 'Run the program by hand, as the same user and with the same environment.',
  },
} as const
