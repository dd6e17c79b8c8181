import { type Engine, type Migration, Table } from '@gatehouse/store'

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
    indexes: ['person', 'mail', 'subject', 'provider_sid', 'ends', 'portal, begun'].map(
      (columns) => `CREATE INDEX sessions_${columns.replace(', ', '_')} ON sessions (${columns})`,
    ),
  },
)

/** The hosts where a session was seen. */
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

export const COMPLETED = new Table('completed', { login: 'text', ...LASTING }, { key: ['login'] })

/** What people have allowed agents, so that they are not asked again. */
export const CONSENTS = new Table(
  'consents',
  { key: 'text', person: 'text', mac: 'text', ...LASTING },
  { key: ['key'], indexes: ['CREATE INDEX consents_person ON consents (person)'] },
)

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
    person: 'text?',
    name: 'text?',
    host: 'text?',
    clientAddress: 'text?',
    requestId: 'text',
    code: 'text?',
    refusedBy: 'text?',
    clause: 'text?',
    endedBy: 'text?',
    client: 'text?',
    tool: 'text?',
    count: 'integer?',
  },
  {
    also: ['UNIQUE (id)'],
    indexes: ['CREATE INDEX audit_at ON audit (at, seq)'],
  },
)

/** By this name of the first version a schema is known as one of this service. */
export const KNOWN_BY = 'revoked'
/** The sessions that had ended. */
const REVOKED = new Table(
  KNOWN_BY,
  {
    ...({ id: 'id', sid: 'text', person: 'text', first: 'integer', last: 'integer' } as const),
    ...{ generation: 'integer', ...LASTING },
  },
  { also: ['UNIQUE (sid)'] },
)
const OF_SESSIONS = [VISITS, MARKS, EVENTS]
/** The tables of PostgreSQL. */
export const TABLES: readonly Table[] = [
  SESSIONS,
  ...OF_SESSIONS,
  COMPLETED,
  CONSENTS,
  SECRETS,
  AUDIT,
]

/** Creates tables. On PostgreSQL, instances find new rows of one by a column, also those that commit late. */
function created(dialect: Engine['dialect'], tables: readonly Table[], followed: string): string {
  const column = `
  ALTER TABLE ${followed} ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
  CREATE INDEX ${followed}_xid ON ${followed} (xid)`
  const sql = tables.map((table) => table.createdBy(dialect, LATER))
  return [...sql, ...(dialect === 'postgres' ? [column] : [])].join(';\n')
}

/**
 * An index for each way to list sessions, and for agents: in their order, so that a page reads no more than it shows.
 * SQLite, which counts no rows, takes any index that fits.
 */
function listedBy(column: string): string {
  const kinds = { people: 'IS NULL', agents: 'IS NOT NULL' }
  return Object.entries(kinds)
    .map(([kind, isSo]) => {
      const name = `sessions_${column}_${kind}`
      return `CREATE INDEX ${name} ON sessions (${column}, begun DESC, sid) WHERE parent ${isSo};`
    })
    .join('\n')
}

/** Members that later steps add to the tables of the first ones. */
const LATER = ['endedBy', 'client', 'tool', 'count', 'parent', 'seenMac', 'mac']

/** The steps from an empty store to today's. One that was released is never changed: add another one. */
export const MIGRATIONS: readonly Migration[] = [
  (dialect) => {
    const others = dialect === 'postgres' ? [SECRETS, AUDIT] : []
    return created(dialect, [REVOKED, COMPLETED, ...others], KNOWN_BY)
  },
  (dialect) =>
    `${dialect === 'postgres' ? 'ALTER TABLE audit ADD COLUMN ended_by text;' : ''}
    DROP TABLE ${KNOWN_BY};
    ${created(dialect, [SESSIONS, ...OF_SESSIONS], EVENTS.name)};
    CREATE VIEW ${KNOWN_BY} AS SELECT * FROM ${EVENTS.name}`,
  (dialect) => {
    const added = ['client text', 'tool text', 'count bigint'].map(
      (column) => `ADD COLUMN ${column}`,
    )
    return `${dialect === 'postgres' ? `ALTER TABLE audit ${added};` : ''}
    ALTER TABLE sessions ADD COLUMN parent text REFERENCES sessions (sid) ON DELETE CASCADE;
    CREATE INDEX sessions_parent ON sessions (parent);
    ${CONSENTS.createdBy(dialect, LATER)}`
  },
  // What is there already counts for nothing: everybody signs in once more.
  () => `
    ALTER TABLE sessions ADD COLUMN seen_mac text NOT NULL DEFAULT '';
    ALTER TABLE consents ADD COLUMN mac text NOT NULL DEFAULT '';
    DROP INDEX sessions_portal_begun; DROP INDEX sessions_person; DROP INDEX sessions_mail; DROP INDEX sessions_parent;
    ${['portal', 'person', 'mail'].map(listedBy).join('\n')}
    CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL`,
]
