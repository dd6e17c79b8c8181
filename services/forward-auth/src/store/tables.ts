import { type Migration, Table } from '@gatehouse/store'

/**
 * The tables of a store: each column is listed here and nowhere else.
 *
 * `until` is the time when a row has ended by the clock, in ms, and `due` the same by the running time of
 * the store.
 */
export const REVOKED = new Table(
  'revoked',
  {
    id: 'id', // a row that changes gets a new one
    sid: 'text',
    person: 'text',
    first: 'integer',
    last: 'integer',
    generation: 'integer',
    until: 'integer',
    due: 'integer',
  },
  { also: ['UNIQUE (sid)'] },
)

export const COMPLETED = new Table(
  'completed',
  { login: 'text', until: 'integer', due: 'integer' },
  { key: ['login'] },
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
  },
  { also: ['UNIQUE (id)'], indexes: ['CREATE INDEX audit_at ON audit (at, seq)'] },
)

export const TABLES: Readonly<Record<'sqlite' | 'postgres', readonly Table[]>> = {
  sqlite: [REVOKED, COMPLETED],
  postgres: [REVOKED, COMPLETED, SECRETS, AUDIT],
}

/** The column by which other instances find new rows, also those of a transaction that commits late. */
const FOLLOWED = `
  ALTER TABLE revoked ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
  CREATE INDEX revoked_xid ON revoked (xid)`

/** The steps from an empty store to today's. One that was released is never changed: add another one. */
export const MIGRATIONS: readonly Migration[] = [
  (dialect) =>
    [
      ...TABLES[dialect].map((table) => table.createdBy(dialect)),
      ...(dialect === 'postgres' ? [FOLLOWED] : []),
    ].join(';\n'),
]
