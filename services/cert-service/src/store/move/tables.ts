import { urlOf } from '../postgres/orders.ts'
import { type Column as Derived, ifLong, searchable } from '../postgres/text.ts'
import {
  BOOLEAN,
  BYTES,
  CERTIFICATES,
  CHAIN,
  type Column,
  DECIMAL,
  HEX,
  INDEXED,
  INTEGER,
  LINEAGE,
  TEXT,
  TEXTS,
  type Value,
} from './columns.ts'

/** A row as both engines give it. */
export type Row = Readonly<Record<string, Value>>

/** A table of both engines. */
export interface Table {
  readonly name: string
  /** Its primary key. */
  readonly key: string
  readonly columns: Readonly<Record<string, Column>>
  /** Columns that only PostgreSQL has, from the row. */
  readonly derived?: Readonly<Record<string, Derived<Row>>>
  /** Whether the next id is a sequence's in PostgreSQL. In SQLite it is one more than the largest. */
  readonly hasSequence?: boolean
  /** What SQLite runs after rows were added, whose keys are the JSON array `:keys`. */
  readonly afterSqlite?: string
}

const longLineage: Derived<Row> = ['text', ({ lineage }) => ifLong(lineage as string)]

/** In SQLite, names are searched by a table that a trigger fills, for what is current alone. */
const FORGET_NAMES = `
  DELETE FROM certificate_names WHERE (name, certificate) IN (
    SELECT names.value, certificates.id FROM certificates, json_each(certificates.names) AS names
    WHERE certificates.id IN (SELECT value FROM json_each(:keys)) AND NOT current)`

const CERTIFICATE_TABLE: Table = {
  name: 'certificates',
  key: 'id',
  columns: {
    ...{ id: INTEGER, lineage: LINEAGE },
    is_current: { ...BOOLEAN, selectSqlite: 'current', nameSqlite: 'current' },
    ...{ issuer: TEXT, domain: TEXT, names: TEXTS, key_type: TEXT, serial_number: TEXT },
    ...{ certificate: BYTES, chain: CHAIN, sealed_key: BYTES, csr: BYTES },
    ...{ not_before: INTEGER, not_after: INTEGER, renew_at: INTEGER },
    ...{ fetched_at: INTEGER, fetched_ran: INTEGER },
    ...{ check_at: INTEGER, window_start: INTEGER, window_end: INTEGER, explanation_url: TEXT },
    // Absent in what early versions stored, and then the same is assumed.
    made_at: { ...INTEGER, selectSqlite: 'coalesce(made_at, not_before)' },
    ...{ made_ran: INTEGER, asked_by: INDEXED, revoked_at: INTEGER, revocation_reason: TEXT },
  },
  derived: {
    long_lineage: longLineage,
    name_count: ['bigint', ({ names }) => (names as readonly string[]).length],
    searched: ['text', ({ names }) => searchable(names as readonly string[])],
  },
  hasSequence: true,
  afterSqlite: FORGET_NAMES,
}

const ORDERS: Table = {
  name: 'orders',
  key: 'id',
  columns: {
    ...{ id: TEXT, lineage: LINEAGE, issuer: TEXT, names: TEXTS, key_type: TEXT, csr: BYTES },
    ...{ status: TEXT, step: TEXT, since: INTEGER, failures: INTEGER, last_error: TEXT },
    ...{ next_try_at: INTEGER, state: TEXT, sealed_key: BYTES, asked_by: TEXT, ran: INTEGER },
  },
  derived: {
    long_lineage: longLineage,
    url: ['text', ({ state }) => urlOf(state === null ? null : JSON.parse(state as string))],
  },
}

const AUTHORITIES: Table = {
  name: 'authorities',
  key: 'id',
  columns: {
    ...{ id: INTEGER, role: TEXT, certificate: BYTES, sealed_key: BYTES, not_after: INTEGER },
    previous: {
      ...INTEGER,
      nameSqlite: null,
      selectSqlite: `(SELECT coalesce(max(older.id), 0) FROM authorities AS older
        WHERE older.role = authorities.role AND older.id < authorities.id)`,
    },
  },
  hasSequence: true,
}

const AUDIT: Table = {
  name: 'audit',
  key: 'id',
  columns: {
    ...{ id: INTEGER, at: INTEGER, action: TEXT, actor: TEXT, names: TEXTS, serial_number: TEXT },
    ...{ remote_address: TEXT, request_id: TEXT, detail: TEXT, count: INTEGER },
    ...{ key: INDEXED, ran: INTEGER },
  },
  hasSequence: true,
}

/**
 * What a store consists of, those that others refer to first. Not among them is what ends with a process:
 * leases, reservations and what replicas tell each other.
 */
export const TABLES: readonly Table[] = [
  { name: 'chains', key: 'id', columns: { id: CHAIN, issuer: HEX, certificates: CERTIFICATES } },
  CERTIFICATE_TABLE,
  { name: 'compromised_keys', key: 'spki_sha256', columns: { spki_sha256: TEXT, at: INTEGER } },
  ORDERS,
  {
    name: 'acme_accounts',
    key: 'directory',
    columns: { directory: TEXT, sealed_key: BYTES, next_key: BYTES, url: TEXT, contact: TEXT },
  },
  {
    name: 'challenges',
    key: 'key',
    columns: { key: TEXT, value: TEXT, at: INTEGER, ran: INTEGER },
  },
  AUTHORITIES,
  {
    name: 'crls',
    key: 'authority_id',
    columns: {
      ...{ authority_id: INTEGER, number: DECIMAL, crl: BYTES, this_update: INTEGER },
      ...{ next_update: INTEGER, entries: TEXT },
    },
  },
  AUDIT,
  {
    name: 'data_keys',
    key: 'id',
    columns: { id: INTEGER, purpose: TEXT, wrapped: BYTES, seals: INTEGER },
  },
  { name: 'usage', key: 'key', columns: { key: INDEXED, until: INTEGER, ended_ran: INTEGER } },
  {
    name: 'events',
    key: 'id',
    columns: {
      ...{ id: INTEGER, receiver: TEXT, body: TEXT, at: INTEGER, tries: INTEGER, next_at: INTEGER },
    },
    hasSequence: true,
  },
  { name: 'told', key: 'key', columns: { key: INDEXED, until: INTEGER, at: INTEGER } },
  {
    name: 'sign_ins',
    key: 'id',
    columns: { id: TEXT, key_sha256: BYTES, opened_at: INTEGER, used_at: INTEGER },
  },
  { name: 'master_key', key: 'id', columns: { id: INTEGER, check_value: BYTES } },
]
