import type { DatabaseSync } from 'node:sqlite'
import { CertError } from '../../errors.ts'
import { spkiSha256sOf } from '../compromised.ts'

/** The steps from an empty file to today's schema. A step that was released is never changed: add one. */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE chains (
    id INTEGER PRIMARY KEY,
    issuer TEXT NOT NULL, -- SHA-256 of the direct issuer
    certificates TEXT NOT NULL UNIQUE -- JSON array of DER in base64
  ) STRICT;

  CREATE TABLE certificates (
    id INTEGER PRIMARY KEY,
    lineage TEXT NOT NULL,
    current INTEGER NOT NULL,
    issuer TEXT NOT NULL,
    domain TEXT NOT NULL, -- the first of the names
    names TEXT NOT NULL, -- JSON array
    key_type TEXT NOT NULL,
    serial_number TEXT NOT NULL,
    certificate BLOB NOT NULL,
    chain INTEGER NOT NULL REFERENCES chains,
    sealed_key BLOB,
    csr BLOB,
    not_before INTEGER NOT NULL,
    not_after INTEGER NOT NULL,
    renew_at INTEGER,
    fetched_at INTEGER NOT NULL,
    revoked_at INTEGER,
    revocation_reason TEXT,
    UNIQUE (chain, serial_number)
  ) STRICT;
  CREATE UNIQUE INDEX certificates_current ON certificates (lineage) WHERE current = 1;
  CREATE INDEX certificates_domain ON certificates (domain);
  CREATE INDEX certificates_due ON certificates (renew_at) WHERE current = 1 AND renew_at IS NOT NULL;
  CREATE INDEX certificates_revoked ON certificates (chain) WHERE revoked_at IS NOT NULL;
  CREATE INDEX certificates_expiry ON certificates (not_after);

  CREATE TABLE orders (
    id TEXT PRIMARY KEY,
    lineage TEXT NOT NULL UNIQUE,
    issuer TEXT NOT NULL,
    names TEXT NOT NULL,
    key_type TEXT NOT NULL,
    csr BLOB,
    status TEXT NOT NULL,
    step TEXT NOT NULL,
    since INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    last_error TEXT, -- JSON
    next_try_at INTEGER
  ) STRICT;

  CREATE TABLE authorities (
    id INTEGER PRIMARY KEY,
    role TEXT NOT NULL,
    certificate BLOB NOT NULL,
    sealed_key BLOB,
    not_after INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE crls (
    authority_id INTEGER PRIMARY KEY REFERENCES authorities,
    number TEXT NOT NULL, -- decimal: RFC 5280 allows 20 octets
    crl BLOB NOT NULL,
    next_update INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    names TEXT NOT NULL,
    serial_number TEXT,
    remote_address TEXT,
    request_id TEXT,
    detail TEXT,
    count INTEGER NOT NULL,
    key TEXT
  ) STRICT;
  CREATE UNIQUE INDEX audit_key ON audit (key) WHERE key IS NOT NULL;

  CREATE TABLE master_key (id INTEGER PRIMARY KEY CHECK (id = 1), check_value BLOB NOT NULL) STRICT;
  CREATE TABLE data_keys (
    id INTEGER PRIMARY KEY,
    purpose TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    seals INTEGER NOT NULL
  ) STRICT;
  `,
  `
  CREATE TABLE certificate_names ( -- of what is current, beside its domain
    name TEXT NOT NULL,
    certificate INTEGER NOT NULL,
    PRIMARY KEY (name, certificate)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO certificate_names
    SELECT DISTINCT value, certificates.id FROM certificates, json_each(names)
    WHERE current = 1 AND value <> domain;
  CREATE TRIGGER certificate_added AFTER INSERT ON certificates
  WHEN json_array_length(NEW.names) > 1 BEGIN
    INSERT INTO certificate_names
      SELECT DISTINCT value, NEW.id FROM json_each(NEW.names) WHERE value <> NEW.domain;
  END;
  CREATE TRIGGER certificate_retired AFTER UPDATE OF current ON certificates
  WHEN NEW.current = 0 AND json_array_length(OLD.names) > 1 BEGIN
    DELETE FROM certificate_names
    WHERE certificate = OLD.id AND name IN (SELECT value FROM json_each(OLD.names));
  END;
  CREATE TRIGGER certificate_pruned AFTER DELETE ON certificates
  WHEN json_array_length(OLD.names) > 1 BEGIN
    DELETE FROM certificate_names
    WHERE certificate = OLD.id AND name IN (SELECT value FROM json_each(OLD.names));
  END;
  `,
  `
  CREATE INDEX certificates_upcoming ON certificates (coalesce(renew_at, not_after), id)
    WHERE current = 1;
  `,
  `
  ALTER TABLE orders ADD COLUMN state TEXT; -- JSON, the issuer's own
  ALTER TABLE orders ADD COLUMN sealed_key BLOB;
  CREATE INDEX orders_kept ON orders (next_try_at) WHERE state IS NOT NULL;
  ALTER TABLE certificates ADD COLUMN check_at INTEGER;
  ALTER TABLE certificates ADD COLUMN window_start INTEGER;
  ALTER TABLE certificates ADD COLUMN window_end INTEGER;
  CREATE INDEX certificates_check ON certificates (check_at)
    WHERE current = 1 AND check_at IS NOT NULL;
  CREATE TABLE acme_accounts (
    directory TEXT PRIMARY KEY,
    sealed_key BLOB NOT NULL,
    next_key BLOB, -- while the CA is asked to take it in place of the other
    url TEXT,
    contact TEXT
  ) STRICT;
  CREATE TABLE challenges (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  CREATE TABLE usage ( -- of the limits of CAs
    key TEXT PRIMARY KEY,
    until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE events ( -- to be told
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL, -- JSON
    at INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    next_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX events_due ON events (next_at);
  CREATE TABLE told (
    key TEXT PRIMARY KEY,
    until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX certificates_ending ON certificates (not_after)
    WHERE current = 1 AND renew_at IS NOT NULL;
  `,
  `
  CREATE TABLE run_time (id INTEGER PRIMARY KEY CHECK (id = 1), ms INTEGER NOT NULL) STRICT;
  INSERT INTO run_time VALUES (1, 0);
  -- The run time of the store when a row was written, for what a wrong clock must not delete.
  ALTER TABLE certificates ADD COLUMN made_at INTEGER;
  ALTER TABLE certificates ADD COLUMN made_ran INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE certificates ADD COLUMN fetched_ran INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE orders ADD COLUMN ran INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE audit ADD COLUMN ran INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE challenges ADD COLUMN ran INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE usage ADD COLUMN ended_ran INTEGER;
  ALTER TABLE told ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE crls ADD COLUMN this_update INTEGER;
  CREATE INDEX certificates_begin ON certificates (not_before)
    WHERE current = 1 AND renew_at IS NOT NULL;
  `,
  `
  ALTER TABLE certificates ADD COLUMN asked_by TEXT; -- whom it counts for, until it is replaced
  CREATE INDEX certificates_asked ON certificates (asked_by, not_after) WHERE asked_by IS NOT NULL;
  CREATE TABLE compromised_keys ( -- never certified again
    spki_sha256 TEXT PRIMARY KEY,
    at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  ALTER TABLE certificates ADD COLUMN explanation_url TEXT; -- of the CA, for its window
  `,
  `
  ALTER TABLE orders ADD COLUMN asked_by TEXT; -- whom its certificate is to count for
  `,
  `
  ALTER TABLE crls ADD COLUMN entries TEXT; -- SHA-256 of what is revoked in it
  CREATE TABLE sign_ins ( -- at the inventory
    id TEXT PRIMARY KEY, -- SHA-256 of the id that the browser has
    key_sha256 BLOB NOT NULL,
    opened_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX certificates_late ON certificates (not_after - (not_after - not_before) / 3)
    WHERE current = 1 AND renew_at IS NOT NULL;
  `,
  `
  ALTER TABLE events ADD COLUMN receiver TEXT NOT NULL DEFAULT 'webhook'; -- by name
  DROP INDEX events_due;
  CREATE INDEX events_due ON events (receiver, next_at);
  CREATE INDEX events_order ON events (receiver, id);
  `,
  `
  -- Each order of the inventory, with all that is filtered by: rows are large.
  DROP INDEX certificates_upcoming;
  DROP INDEX certificates_ending;
  CREATE INDEX certificates_upcoming
    ON certificates (coalesce(renew_at, not_after), id, not_after, renew_at, issuer, domain, names)
    WHERE current = 1;
  CREATE INDEX certificates_by_expiry ON certificates (not_after, id, renew_at, issuer)
    WHERE current = 1;
  CREATE INDEX certificates_by_name ON certificates (domain, id, not_after, renew_at, issuer)
    WHERE current = 1;
  CREATE INDEX certificates_unrenewed ON certificates (not_after, id)
    WHERE current = 1 AND renew_at IS NULL;
  CREATE INDEX orders_failed ON orders (next_try_at, lineage) WHERE status = 'failed';
  `,
  `
  -- What was revoked before the list was kept. Databases are younger than the list.
  INSERT OR IGNORE INTO compromised_keys
    SELECT spki_sha256(certificate), revoked_at FROM certificates
    WHERE revocation_reason = 'keyCompromise';
  `,
]

/** Brings a store to today's schema: each step whole or not at all. @throws CertError CERT_STORE_NEWER */
export function migrate(sqlite: DatabaseSync, migrations = MIGRATIONS): void {
  const version = schemaVersion(sqlite)
  if (version > migrations.length) {
    throw new CertError(
      'CERT_STORE_NEWER',
      `The store has schema ${version}, this version knows up to ${migrations.length}.`,
    )
  }
  sqlite.function('spki_sha256', (der) => [...spkiSha256sOf([der as Uint8Array])][0] ?? null)
  for (const [step, sql] of migrations.entries()) {
    if (step < version) continue
    sqlite.exec(`BEGIN IMMEDIATE; ${sql}; PRAGMA user_version = ${step + 1}; COMMIT`)
  }
}

/** How many migrations a store has had. */
export function schemaVersion(sqlite: Pick<DatabaseSync, 'prepare'>): number {
  return Number(sqlite.prepare('PRAGMA user_version').get()?.user_version)
}
