import { type Migration, Table, WAITING } from '@gatehouse/store'

/**
 * The tables of a store: each column is listed here and nowhere else.
 *
 * Times are epoch milliseconds. `ran` is the run time of the store when a row was written, for what a wrong
 * clock must not delete.
 */
export const CHAINS = new Table(
  'chains',
  {
    id: 'text', // SHA-256 of its certificates
    issuer: 'text', // SHA-256 of the direct issuer
    certificates: 'texts', // DER in base64
  },
  { key: ['id'], indexes: ['CREATE INDEX chains_issuer ON chains (issuer)'] },
)

/** SQL: the longer of the lifetimes by the certificate and by the clock: one of the two clocks was right. */
export const LIFETIME = '(not_after - least(not_before, made_at))'
/** SQL: renewals that are planned later than within the window, or at two thirds of the lifetime, as those are that failed. */
export const PUT_OFF = `
  renew_at IS NOT NULL AND account IS NULL
  AND renew_at > coalesce(window_end, not_before + (not_after - not_before) * 2 / 3)`

/** SQL: certificates under whose names it is looked at what is served. */
export const IS_PROBED = '(is_current OR revoked_at IS NOT NULL)'

const CURRENT = 'WHERE is_current'
const RENEWED = 'WHERE is_current AND renew_at IS NOT NULL'

export const CERTIFICATES = new Table(
  'certificates',
  {
    id: 'id',
    requestKey: 'text',
    isCurrent: 'boolean',
    issuer: 'text',
    domain: 'text', // the first of the names
    names: 'texts',
    nameCount: 'integer',
    searched: 'text?', // the names, unless they are too long for an index
    keyType: 'text',
    serialNumber: 'text',
    fingerprint: 'text', // SHA-256 of the certificate
    certificate: 'bytes',
    chain: 'text',
    sealedKey: 'bytes?',
    csr: 'bytes?',
    notBefore: 'integer',
    notAfter: 'integer',
    renewAt: 'integer?',
    fetchedAt: 'integer',
    fetchedRan: 'integer',
    checkAt: 'integer?',
    windowStart: 'integer?',
    windowEnd: 'integer?',
    explanationUrl: 'text?', // of the CA, for its window
    madeAt: 'integer',
    madeRan: 'integer',
    askedBy: 'indexed?', // whom it counts for, until it is replaced
    revokedAt: 'integer?',
    revocationReason: 'text?',
    way: 'text?', // by which it came: see `Way`
    client: 'text?', // the program that asked for it
    account: 'text?', // of the ACME client, which renews it
    servedOrder: 'text?', // the order of that client
    address: 'text?', // from which that client asked
    replacedBy: 'integer?', // the next certificate of its lineage
    replacementReason: 'text?', // by what that one was found to be the next: see `Predecessor`
    downloadedAt: 'integer?', // by that client
    renewalInfoReadAt: 'integer?', // when that client last asked when to renew it
    renewalRequestedAt: 'integer?', // from when on that client is asked to renew it
    lifetime: 'integer?', // the shortest that was asked for
    probeAt: 'integer', // when to look at what is served under its names
  },
  {
    also: [
      'late_at bigint GENERATED ALWAYS AS (not_after - (not_after - not_before) / 3) STORED',
      'FOREIGN KEY (chain) REFERENCES chains (id)',
    ],
    indexes: [
      `CREATE UNIQUE INDEX certificates_current ON certificates (request_key) ${CURRENT}`,
      'CREATE UNIQUE INDEX certificates_serial ON certificates (serial_number, chain)',
      'CREATE INDEX certificates_fingerprint ON certificates (fingerprint)',
      'CREATE INDEX certificates_domain ON certificates (domain, not_after)',
      `CREATE INDEX certificates_due ON certificates (renew_at, id) ${RENEWED} AND account IS NULL`,
      `CREATE INDEX certificates_check ON certificates (check_at, id) ${RENEWED} AND check_at IS NOT NULL`,
      `CREATE INDEX certificates_probe ON certificates (probe_at, id) WHERE ${IS_PROBED}`,
      `CREATE INDEX certificates_late ON certificates (late_at) INCLUDE (is_current) ${RENEWED}`,
      `CREATE INDEX certificates_begin ON certificates (not_before, id) ${RENEWED}`,
      `CREATE INDEX certificates_put_off ON certificates (renew_at, id) ${CURRENT} AND ${PUT_OFF}`,
      `CREATE INDEX certificates_kept ON certificates ((made_ran + ${LIFETIME}))`,
      `CREATE INDEX certificates_account ON certificates (account, domain)
        WHERE account IS NOT NULL AND revoked_at IS NULL`,
      `CREATE INDEX certificates_heads ON certificates (asked_by, domain) ${CURRENT} AND account IS NOT NULL`,
      'CREATE INDEX certificates_revoked ON certificates (chain) WHERE revoked_at IS NOT NULL',
      `CREATE INDEX certificates_asked ON certificates (asked_by, not_after) INCLUDE (name_count)
        WHERE asked_by IS NOT NULL`,
      // Each order of the inventory, with all that is filtered by: rows are large. SQLite needs `is_current` again.
      `CREATE INDEX certificates_upcoming
        ON certificates (coalesce(renew_at, not_after), id)
        INCLUDE (not_after, renew_at, issuer, domain, searched, is_current) ${CURRENT}`,
      `CREATE INDEX certificates_unsearched ON certificates (coalesce(renew_at, not_after), id)
        ${CURRENT} AND searched IS NULL`,
      `CREATE INDEX certificates_by_expiry ON certificates (not_after, id) INCLUDE (renew_at, issuer, is_current)
        ${CURRENT}`,
      `CREATE INDEX certificates_by_name ON certificates (domain COLLATE "C", id)
        INCLUDE (not_after, renew_at, issuer, is_current) ${CURRENT}`,
      `CREATE INDEX certificates_unrenewed ON certificates (not_after, id)
        INCLUDE (renew_at, is_current) ${CURRENT} AND renew_at IS NULL`,
    ],
  },
)

/** The names of what is current, but for the first ones. */
const CERTIFICATE_NAMES = new Table(
  'certificate_names',
  { name: 'text', certificate: 'integer', notAfter: 'integer' },
  {
    key: ['name', 'certificate'],
    also: ['FOREIGN KEY (certificate) REFERENCES certificates (id) ON DELETE CASCADE'],
    indexes: [
      'CREATE INDEX certificate_names_certificate ON certificate_names (certificate)',
      'CREATE INDEX certificate_names_end ON certificate_names (name, not_after)',
    ],
  },
)

/** The changes of certificates' states, except issuance and renewals by the service itself. */
export const TRANSITIONS = new Table(
  'transitions',
  {
    id: 'id',
    certificate: 'integer',
    at: 'integer',
    action: 'text', // see `Transition`
    actor: 'text',
    account: 'text?', // of the ACME client that did it
  },
  {
    also: ['FOREIGN KEY (certificate) REFERENCES certificates (id) ON DELETE CASCADE'],
    indexes: ['CREATE INDEX transitions_certificate ON transitions (certificate, id)'],
  },
)

/** The keys that are never certified again. */
export const COMPROMISED_KEYS = new Table(
  'compromised_keys',
  { spkiSha256: 'text', at: 'integer' },
  { key: ['spkiSha256'] },
)

export const ORDERS = new Table(
  'orders',
  {
    id: 'text',
    requestKey: 'text',
    issuer: 'text',
    names: 'texts',
    keyType: 'text',
    csr: 'bytes?',
    status: 'text',
    step: 'text',
    since: 'integer',
    failures: 'integer',
    lastError: 'json?',
    nextTryAt: 'integer?',
    state: 'json?', // the issuer's own
    url: 'indexed?', // of the order at the CA
    sealedKey: 'bytes?',
    askedBy: 'text?', // whom its certificate is to count for
    ran: 'integer',
    origin: 'json?', // of an ACME client: see `Origin`
    configuration: 'text?', // the digest of what its issuer was configured with when it failed
    lifetime: 'integer?', // that was asked for
  },
  {
    key: ['id'],
    also: ['UNIQUE (request_key)'],
    indexes: [
      `CREATE INDEX orders_pending ON orders (request_key) WHERE status = 'pending'`,
      `CREATE INDEX orders_failed ON orders (next_try_at, request_key) WHERE status = 'failed'`,
      'CREATE INDEX orders_url ON orders (url)',
      `CREATE INDEX orders_ran ON orders (ran) WHERE status <> 'pending'`,
    ],
  },
)

export const ACCOUNTS = new Table(
  'acme_accounts',
  {
    directory: 'text', // URL, and after `#` the name of the account if it has one
    sealedKey: 'bytes', // PKCS#8
    nextKey: 'bytes?', // while the CA is asked to take it in place of the other
    url: 'text?',
    contact: 'text?', // the e-mail address that the CA has
  },
  { key: ['directory'] },
)

/** Counts how often the key by which ACME clients bind accounts to a caller was replaced. */
const EXTERNAL_ACCOUNTS = new Table(
  'external_accounts',
  { caller: 'indexed', counter: 'integer' },
  { key: ['caller'] },
)

/** The accounts of ACME clients, for which this service is the CA. */
export const SERVED_ACCOUNTS = new Table(
  'served_accounts',
  {
    id: 'text',
    caller: 'text?', // the name of its API key; without one it is of an open network
    boundBy: 'text?', // SHA-256 of the value of that key
    thumbprint: 'text', // of its key (RFC 7638)
    jwk: 'text', // its key
    status: 'text',
    contact: 'texts', // URLs
    client: 'text?', // the program, from User-Agent
    remoteAddress: 'text?',
    createdAt: 'integer',
    usedAt: 'integer',
    keptAt: 'integer', // when it was last used, or the latest end of what it has got
    keptRan: 'integer',
  },
  {
    key: ['id'],
    also: ['UNIQUE (thumbprint)'],
    indexes: [
      'CREATE INDEX served_accounts_kept ON served_accounts (kept_ran)',
      `CREATE INDEX served_accounts_caller ON served_accounts (coalesce(caller, ''), used_at)`,
      `CREATE INDEX served_accounts_ended ON served_accounts (coalesce(caller, ''), used_at)
        WHERE status <> 'valid'`,
      'CREATE INDEX served_accounts_bound ON served_accounts (bound_by)',
    ],
  },
)

const IS_OPEN = `WHERE status IN ('pending', 'ready')`

/** The orders of ACME clients. */
export const SERVED_ORDERS = new Table(
  'served_orders',
  {
    id: 'text',
    account: 'text',
    wanted: 'text', // SHA-256 of names, profile, end and what it replaces
    names: 'texts',
    profile: 'text',
    profileName: 'text?', // as its client gives it, if it is one of the configuration
    replaces: 'text?', // the renewal ID of a certificate
    notAfter: 'integer?', // when its certificate is to end, if the client says so
    status: 'text',
    proofs: 'json?', // of an account without a caller, and where an authorization was deactivated
    csr: 'bytes?',
    fingerprint: 'text?', // SHA-256 of its certificate
    error: 'json?',
    at: 'integer',
    expiresAt: 'integer',
    ran: 'integer',
  },
  {
    key: ['id'],
    indexes: [
      `CREATE UNIQUE INDEX served_orders_open ON served_orders (account, wanted) ${IS_OPEN}`,
      'CREATE INDEX served_orders_account ON served_orders (account, id)',
      'CREATE INDEX served_orders_ran ON served_orders (ran)',
    ],
  },
)

export const CHALLENGES = new Table(
  'challenges',
  { key: 'text', value: 'text', at: 'integer', ran: 'integer' },
  { key: ['key'], indexes: ['CREATE INDEX challenges_ran ON challenges (ran)'] },
)

export const AUTHORITIES = new Table(
  'authorities',
  {
    id: 'id',
    role: 'text',
    previous: 'integer', // 0 for the first of its role; of what a roll adds, the root before, negated
    certificate: 'bytes',
    sealedKey: 'bytes?',
    notAfter: 'integer',
  },
  { also: ['UNIQUE (role, previous)'] },
)

/** How far the CA has come from one root to the next. */
export const ROLLS = new Table(
  'rolls',
  {
    toRoot: 'integer',
    fromRoot: 'integer',
    stage: 'text', // see `RollRecord`
    begunAt: 'integer',
    usedAt: 'integer?', // since when the new root signs, unless the one before signs again
  },
  {
    key: ['toRoot'],
    also: ['from_root', 'to_root'].map(
      (column) => `FOREIGN KEY (${column}) REFERENCES authorities (id)`,
    ),
  },
)

export const CRLS = new Table(
  'crls',
  {
    authorityId: 'integer',
    number: 'decimal', // RFC 5280 allows 20 octets
    crl: 'bytes',
    thisUpdate: 'integer?',
    nextUpdate: 'integer',
    entries: 'text?', // SHA-256 of what is revoked in it
  },
  { key: ['authorityId'], also: ['FOREIGN KEY (authority_id) REFERENCES authorities (id)'] },
)

export const AUDIT = new Table(
  'audit',
  {
    id: 'id',
    at: 'integer',
    action: 'text',
    actor: 'text',
    names: 'texts',
    serialNumber: 'text?',
    remoteAddress: 'text?',
    requestId: 'text?',
    detail: 'text?',
    account: 'text?', // of an ACME client
    count: 'integer',
    key: 'indexed?',
    ran: 'integer',
  },
  { indexes: ['CREATE UNIQUE INDEX audit_key ON audit (key) WHERE key IS NOT NULL'] },
)

export const MASTER_KEY = new Table(
  'master_key',
  { id: 'integer', checkValue: 'bytes' },
  { key: ['id'], also: ['CHECK (id = 1)'] },
)

export const DATA_KEYS = new Table(
  'data_keys',
  {
    id: 'integer',
    purpose: 'text',
    wrapped: 'bytes', // by the master key
    seals: 'integer', // how often it may have sealed: counted before use, so never too low
  },
  { key: ['id'] },
)

/** The used share of limits. */
export const USAGE = new Table(
  'usage',
  { key: 'indexed', until: 'integer', endedRan: 'integer?' },
  {
    key: ['key'],
    indexes: [
      'CREATE INDEX usage_until ON usage (until) WHERE ended_ran IS NULL',
      'CREATE INDEX usage_revived ON usage (until) WHERE ended_ran IS NOT NULL',
      'CREATE INDEX usage_ended ON usage (ended_ran) WHERE ended_ran IS NOT NULL',
    ],
  },
)

/** The events that are to be delivered. */
export const EVENTS = new Table('events', WAITING, {
  indexes: [
    'CREATE INDEX events_due ON events (receiver, next_at)',
    'CREATE INDEX events_order ON events (receiver, id)',
  ],
})

export const TOLD = new Table(
  'told',
  { key: 'indexed', until: 'integer', at: 'integer' },
  {
    key: ['key'],
    indexes: ['until', 'at'].map((column) => `CREATE INDEX told_${column} ON told (${column})`),
  },
)

/** What is served under the names of certificates, place by place, as it was last seen. */
export const PROBES = new Table(
  'probes',
  {
    id: 'id',
    name: 'text',
    host: 'text', // that leads to the address
    address: 'text', // empty if the host has none
    port: 'integer',
    protocol: 'text',
    keyType: 'text', // the kind of key that was asked for: empty for any
    reporter: 'indexed', // the caller that says so of its own machine: empty if this service has looked
    state: 'text', // see `ProbeState`
    sha256: 'text?', // of what is served, like the rest
    issuer: 'text?',
    notBefore: 'integer?',
    notAfter: 'integer?',
    since: 'integer', // when the state began
    seenAt: 'integer',
    failures: 'integer', // looks in a row that saw nothing
  },
  {
    also: ['UNIQUE (name, host, address, port, key_type, reporter)'],
    indexes: [
      'CREATE INDEX probes_seen ON probes (seen_at)',
      'CREATE INDEX probes_state ON probes (state, since)',
      `CREATE INDEX probes_kept ON probes ((reporter <> ''), id)`,
    ],
  },
)

/** The sign-ins at the inventory. */
export const SIGN_INS = new Table(
  'sign_ins',
  {
    id: 'text', // SHA-256 of the id that the browser has
    keySha256: 'bytes',
    openedAt: 'integer',
    usedAt: 'integer',
  },
  { key: ['id'] },
)

/** The roots that others trust, while one root takes the place of another. */
export const ROOT_HOLDERS = new Table(
  'root_holders',
  {
    caller: 'indexed', // empty for an address that has fetched them
    address: 'text',
    roots: 'texts', // the beginning of the SHA-256 of each
    seenAt: 'integer',
  },
  {
    key: ['caller', 'address'],
    indexes: [
      'CREATE INDEX root_holders_of_caller ON root_holders (caller, seen_at)',
      'CREATE INDEX root_holders_seen ON root_holders (seen_at)',
    ],
  },
)

/** All tables. A table that others refer to comes first. */
export const TABLES: readonly Table[] = [
  CHAINS,
  CERTIFICATES,
  CERTIFICATE_NAMES,
  TRANSITIONS,
  COMPROMISED_KEYS,
  ORDERS,
  ACCOUNTS,
  CHALLENGES,
  AUTHORITIES,
  ROLLS,
  CRLS,
  AUDIT,
  MASTER_KEY,
  DATA_KEYS,
  USAGE,
  EVENTS,
  TOLD,
  PROBES,
  SIGN_INS,
  ROOT_HOLDERS,
  EXTERNAL_ACCOUNTS,
  SERVED_ACCOUNTS,
  SERVED_ORDERS,
]

/**
 * The tables that end with a process. In SQLite they are temporary, as no other process works on the store. Times
 * are those of the database's clock.
 */
const LEASES = new Table(
  'leases',
  {
    token: 'id',
    requestKey: 'text',
    holder: 'text', // the replica
    until: 'integer',
    isClaim: 'boolean', // until a renewal begins: it stores nothing
    askedBy: 'indexed?',
    domain: 'text',
    names: 'integer',
  },
  {
    also: ['UNIQUE (request_key)'],
    indexes: [
      'CREATE INDEX leases_domain ON leases (domain)',
      'CREATE INDEX leases_asked ON leases (asked_by) WHERE asked_by IS NOT NULL',
    ],
  },
)

export const RESERVATIONS = new Table(
  'reservations',
  { orderId: 'indexed', key: 'indexed', since: 'integer' },
  {
    key: ['orderId', 'key'],
    indexes: ['CREATE INDEX reservations_key ON reservations (key)'],
  },
)

export const OF_PROCESSES: readonly Table[] = [LEASES, RESERVATIONS]

/** The messages of replicas to each other. */
const OF_REPLICAS = `
CREATE TABLE replicas (
  id text PRIMARY KEY,
  name text NOT NULL,
  joined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL
);
CREATE TABLE changes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  origin text NOT NULL, -- the replica
  request_keys text, -- JSON; NULL for all
  is_urgent boolean NOT NULL, -- to be confirmed
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX changes_xid ON changes (xid);
CREATE TABLE confirmations (
  change bigint,
  replica text,
  PRIMARY KEY (change, replica)
)`

/** The steps from an empty store to today's. One that was released is never changed: add another one. */
export const MIGRATIONS: readonly Migration[] = [
  (dialect) => {
    const sql = TABLES.map((table) => table.createdBy(dialect))
    const ofReplicas = OF_PROCESSES.map((table) => table.createdBy(dialect))
    return [...sql, ...(dialect === 'postgres' ? [...ofReplicas, OF_REPLICAS] : [])].join(';\n')
  },
]
