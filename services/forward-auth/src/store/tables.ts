import { type Migration, Table, WAITING } from '@gatehouse/store'

/** The time when a row has ended by the clock, in ms, and the same by the running time of the store. */
const LASTING = { until: 'integer', due: 'integer' } as const

// The tables of a store: each column is listed here and nowhere else.

/** Sessions of people, and their agents: digests, times in ms since the epoch, and what is sealed. */
export const SESSIONS = new Table(
  'sessions',
  {
    sid: 'text',
    portal: 'text',
    person: 'text', // of portal, provider and ID
    mail: 'text?', // of portal and e-mail address
    subject: 'text?', // of issuer, client and `sub`
    providerSid: 'text?', // of issuer, client and `sid` of the ID token
    issuedAt: 'integer', // `iat` of the ID token, in whole seconds by the clock of the provider
    begun: 'integer',
    lastSeen: 'integer',
    seenMac: 'text', // of `lastSeen`, which changes without a revision
    idle: 'integer?', // for how many ms it lasts without a request
    reRead: 'integer', // when the provider was last asked
    ends: 'integer',
    rev: 'integer', // counts changes
    lease: 'integer', // until when one instance alone may ask the provider; 0: nobody asks
    sealed: 'text',
    parent: 'text?', // of an agent: the session of its person
  },
  {
    key: ['sid'],
    also: ['FOREIGN KEY (parent) REFERENCES sessions (sid) ON DELETE CASCADE'],
    indexes: [
      ...['subject', 'provider_sid', 'ends'].map(
        (column) => `CREATE INDEX sessions_${column} ON sessions (${column})`,
      ),
      ...['portal', 'person', 'mail'].flatMap(listedBy),
      'CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL',
      'CREATE INDEX sessions_idle ON sessions ((last_seen + idle)) WHERE idle IS NOT NULL',
    ],
  },
)

const VISITS = new Table(
  'visits',
  { sid: 'text', host: 'text', at: 'integer' },
  { key: ['sid', 'host'], also: ['FOREIGN KEY (sid) REFERENCES sessions (sid) ON DELETE CASCADE'] },
)

/** Ends by the provider: up to which `iat`. Those of sign-ins have none, and only lock. */
export const MARKS = new Table(
  'marks',
  { key: 'text', before: 'integer', ...LASTING },
  { key: ['key'] },
)

export const EVENTS = new Table('events', { id: 'id', kind: 'text', key: 'text', ...LASTING })

/** SQL: the events for an instance with an empty memory: burnt tickets, and the last ends, should the store lose them. */
export const RECENT = `WHERE id IN (
  SELECT id FROM events WHERE kind = 'burnt'
  UNION ALL SELECT id FROM events WHERE id > (SELECT max(id) FROM events) - 10000) ORDER BY id`

export const COMPLETED = new Table('completed', { login: 'text', ...LASTING }, { key: ['login'] })

/** The consents of people to agents, so that they are not asked again. */
export const CONSENTS = new Table(
  'consents',
  { key: 'text', person: 'text', mac: 'text', ...LASTING },
  { key: ['key'], indexes: ['CREATE INDEX consents_person ON consents (person)'] },
)

/** Calls of tools that people approve, and what they have allowed: good for as long as `until` says, and then shown. */
export const APPROVALS = new Table(
  'approvals',
  {
    key: 'text', // a MAC of the call
    portal: 'text',
    person: 'text', // the digest of the person, or a MAC of a program that acts for nobody
    agent: 'text?', // its session: the row ends with it
    decider: 'text', // the digest of the person who decides, or the portal and the policy of those who do
    state: 'text', // `asked`, `allowed`, `denied` or `remembered`
    ...LASTING,
    sealed: 'text',
  },
  {
    key: ['key'],
    also: ['FOREIGN KEY (agent) REFERENCES sessions (sid) ON DELETE CASCADE'],
    indexes: [
      ...['person', 'decider'].map(
        (column) => `CREATE INDEX approvals_${column} ON approvals (${column}, until)`,
      ),
      'CREATE INDEX approvals_agent ON approvals (agent) WHERE agent IS NOT NULL',
    ],
  },
)

/** What receivers have not accepted yet. */
export const OUTBOX = new Table(
  'outbox',
  { ...WAITING, ...LASTING }, // the body is sealed
  {
    indexes: ['next_at', 'id'].map(
      (column) => `CREATE INDEX outbox_${column} ON outbox (receiver, ${column})`,
    ),
  },
)

/** The tables whose rows end. */
export const ENDING: readonly Table[] = [MARKS, EVENTS, COMPLETED, CONSENTS, APPROVALS, OUTBOX]

/** Secrets; in a folder they are files. */
export const SECRETS = new Table('secrets', { name: 'text', sealed: 'text' }, { key: ['name'] })

/** The audit trail; in a folder, each day is a file. */
export const AUDIT = new Table(
  'audit',
  {
    seq: 'id',
    id: 'text', // of whoever adds it, so that it is added once
    at: 'integer',
    ran: 'integer', // how long the service had run
    event: 'text',
    portal: 'text',
    provider: 'text?',
    person: 'text?', // `<provider>:<identifier at the provider>`, if that is known
    name: 'text?', // the full name
    username: 'text?', // the claim `preferred_username`
    email: 'text?',
    groups: 'text?', // of somebody who was refused
    host: 'text?', // of the app that the person wanted to use, or of the sign-in pages
    method: 'text?', // of the request to the app
    path: 'text?', // of a request that was refused: the words of it
    clientAddress: 'text?',
    requestId: 'text',
    code: 'text?', // of the error that refused or failed
    refusedBy: 'text?', // the rule that refused a person, such as `allow` or `policy admin`
    clause: 'text?', // the part of that rule that did not hold
    endedBy: 'text?',
    actor: 'text?', // who ended or decided: a caller as logs name them, a provider, a client, or a user of the machine
    actorName: 'text?',
    client: 'text?', // the client ID of an agent, or of a token
    tool: 'text?', // what a program called: the tool, the URI of the resource or the name of the prompt, else the method
    outcome: 'text?', // of a call that went through Gatehouse
    duration: 'integer?', // of such a call, in ms
    count: 'integer?', // of equal calls; 1 if it is absent
  },
  {
    also: ['UNIQUE (id)'],
    indexes: ['CREATE INDEX audit_at ON audit (at, seq)'],
  },
)

/** The tables of PostgreSQL. */
export const TABLES: readonly Table[] = [SESSIONS, VISITS, ...ENDING, SECRETS, AUDIT]

const INDEXES = [
  ...ENDING.map(({ name }) => `CREATE INDEX ${name}_due ON ${name} (due)`),
  `CREATE INDEX events_burnt ON events (id) WHERE kind = 'burnt'`,
]

/** The column by which instances find new events on PostgreSQL, also those that commit late. */
const FOLLOWED = `
  ALTER TABLE events ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
  CREATE INDEX events_xid ON events (xid)`

/** The steps from an empty store to today's. One that was released is never changed: add another one. */
export const MIGRATIONS: readonly Migration[] = [
  (dialect) => {
    const isPostgres = dialect === 'postgres'
    const tables = TABLES.filter((table) => isPostgres || (table !== SECRETS && table !== AUDIT))
    const sql = tables.map((table) => table.createdBy(dialect))
    return [...sql, ...INDEXES, ...(isPostgres ? [FOLLOWED] : [])].join(';\n')
  },
]

/**
 * An index for each way to list sessions, and for agents: in their order, so that a page reads no more than it shows.
 * SQLite, which counts no rows, takes any index that fits.
 */
function listedBy(column: string): string[] {
  const kinds = { people: 'IS NULL', agents: 'IS NOT NULL' }
  return Object.entries(kinds).map(([kind, isSo]) => {
    const name = `sessions_${column}_${kind}`
    return `CREATE INDEX ${name} ON sessions (${column}, begun DESC, sid) WHERE parent ${isSo}`
  })
}
