/**
 * The steps from an empty schema to today's. A step that was released is never changed: add one.
 *
 * Times are epoch milliseconds, but for leases and what replicas tell each other, which go by the
 * database's clock. Texts without a bound are indexed as `indexable` of text.ts makes them.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE chains (
    id bytea PRIMARY KEY, -- SHA-256 of its certificates
    issuer bytea NOT NULL, -- SHA-256 of the direct issuer
    certificates bytea[] NOT NULL
  );
  CREATE INDEX chains_issuer ON chains (issuer);

  CREATE TABLE certificates (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lineage text NOT NULL,
    long_lineage text, -- the whole of it, if that cannot be indexed
    is_current boolean NOT NULL,
    issuer text NOT NULL,
    domain text NOT NULL, -- the first of the names
    names text[] NOT NULL,
    name_count bigint NOT NULL,
    searched text, -- the names, unless they are too long for an index
    key_type text NOT NULL,
    serial_number text NOT NULL,
    certificate bytea NOT NULL,
    chain bytea NOT NULL,
    sealed_key bytea,
    csr bytea,
    not_before bigint NOT NULL,
    not_after bigint NOT NULL,
    renew_at bigint,
    next_at bigint GENERATED ALWAYS AS (coalesce(renew_at, not_after)) STORED,
    late_at bigint GENERATED ALWAYS AS (not_after - (not_after - not_before) / 3) STORED,
    fetched_at bigint NOT NULL,
    fetched_ran bigint NOT NULL,
    check_at bigint,
    window_start bigint,
    window_end bigint,
    explanation_url text, -- of the CA, for its window
    made_at bigint NOT NULL,
    -- The run time of the store when a row was written, for what a wrong clock must not delete.
    made_ran bigint NOT NULL,
    asked_by text, -- whom it counts for, until it is replaced
    revoked_at bigint,
    revocation_reason text
  ) WITH (fillfactor = 90);
  CREATE UNIQUE INDEX certificates_current ON certificates (lineage) WHERE is_current;
  CREATE UNIQUE INDEX certificates_serial ON certificates (serial_number, chain);
  CREATE INDEX certificates_domain ON certificates (domain, not_after);
  CREATE INDEX certificates_names ON certificates USING gin (names)
    WHERE is_current AND name_count > 1;
  CREATE INDEX certificates_due ON certificates (renew_at)
    WHERE is_current AND renew_at IS NOT NULL;
  CREATE INDEX certificates_check ON certificates (check_at)
    WHERE is_current AND check_at IS NOT NULL;
  CREATE INDEX certificates_upcoming ON certificates (next_at, id) INCLUDE (searched)
    WHERE is_current;
  CREATE INDEX certificates_unsearched ON certificates (next_at, id)
    WHERE is_current AND searched IS NULL;
  CREATE INDEX certificates_ending ON certificates (not_after)
    WHERE is_current AND renew_at IS NOT NULL;
  CREATE INDEX certificates_late ON certificates (late_at)
    WHERE is_current AND renew_at IS NOT NULL;
  CREATE INDEX certificates_begin ON certificates (not_before)
    WHERE is_current AND renew_at IS NOT NULL;
  CREATE INDEX certificates_expiry ON certificates (not_after);
  CREATE INDEX certificates_revoked ON certificates (chain) WHERE revoked_at IS NOT NULL;
  CREATE INDEX certificates_asked ON certificates (asked_by, not_after) INCLUDE (name_count)
    WHERE asked_by IS NOT NULL;
  CREATE TABLE compromised_keys ( -- never certified again
    spki_sha256 text PRIMARY KEY,
    at bigint NOT NULL
  );

  CREATE SEQUENCE lease_tokens;
  CREATE TABLE leases (
    lineage text PRIMARY KEY,
    holder uuid NOT NULL,
    token bigint NOT NULL, -- 0 for a claim, which stores nothing
    until timestamptz NOT NULL,
    asked_by text,
    domain text NOT NULL,
    names bigint NOT NULL,
    is_held boolean NOT NULL
  ) WITH (fillfactor = 50);
  CREATE INDEX leases_domain ON leases (domain);
  CREATE INDEX leases_asked ON leases (asked_by) WHERE asked_by IS NOT NULL;

  CREATE TABLE orders (
    id text PRIMARY KEY,
    lineage text NOT NULL CONSTRAINT orders_lineage UNIQUE,
    long_lineage text,
    issuer text NOT NULL,
    names text[] NOT NULL,
    key_type text NOT NULL,
    csr bytea,
    status text NOT NULL,
    step text NOT NULL,
    since bigint NOT NULL,
    failures bigint NOT NULL,
    last_error text, -- JSON
    next_try_at bigint,
    state text, -- JSON, the issuer's own
    url text, -- of the order at the CA
    sealed_key bytea,
    asked_by text, -- whom its certificate is to count for
    ran bigint NOT NULL
  );
  CREATE INDEX orders_pending ON orders (lineage) WHERE status = 'pending';
  CREATE INDEX orders_failed ON orders (next_try_at) WHERE status = 'failed';
  CREATE INDEX orders_url ON orders USING hash (url);
  CREATE TABLE acme_accounts (
    directory text PRIMARY KEY,
    sealed_key bytea NOT NULL,
    next_key bytea, -- while the CA is asked to take it in place of the other
    url text,
    contact text
  );
  CREATE TABLE challenges (
    key text PRIMARY KEY,
    value text NOT NULL,
    at bigint NOT NULL,
    ran bigint NOT NULL
  );

  CREATE TABLE authorities (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    role text NOT NULL,
    previous bigint NOT NULL, -- 0 for the first of its role
    certificate bytea NOT NULL,
    sealed_key bytea,
    not_after bigint NOT NULL,
    UNIQUE (role, previous)
  );
  CREATE TABLE crls (
    authority_id bigint PRIMARY KEY REFERENCES authorities,
    number numeric NOT NULL,
    crl bytea NOT NULL,
    this_update bigint,
    next_update bigint NOT NULL,
    entries text -- SHA-256 of what is revoked in it
  );

  CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    action text NOT NULL,
    actor text NOT NULL,
    names text[] NOT NULL,
    serial_number text,
    remote_address text,
    request_id text,
    detail text,
    count bigint NOT NULL,
    key text,
    ran bigint NOT NULL
  );
  CREATE UNIQUE INDEX audit_key ON audit (key) WHERE key IS NOT NULL;

  CREATE TABLE master_key (id int PRIMARY KEY CHECK (id = 1), check_value bytea NOT NULL);
  CREATE TABLE data_keys (
    id bigint PRIMARY KEY,
    purpose text NOT NULL,
    wrapped bytea NOT NULL,
    seals bigint NOT NULL
  );

  CREATE TABLE usage ( -- of limits
    key text PRIMARY KEY,
    until bigint NOT NULL,
    ended_ran bigint
  );
  CREATE INDEX usage_until ON usage (until);
  CREATE TABLE reservations (
    order_id text,
    key text,
    since bigint NOT NULL,
    PRIMARY KEY (order_id, key)
  );
  CREATE INDEX reservations_key ON reservations (key);

  CREATE TABLE events ( -- to be told
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body text NOT NULL, -- JSON
    at bigint NOT NULL,
    tries bigint NOT NULL,
    next_at bigint NOT NULL
  );
  CREATE INDEX events_due ON events (next_at);
  CREATE TABLE told (
    key text PRIMARY KEY,
    until bigint NOT NULL,
    at bigint NOT NULL
  );

  CREATE TABLE sign_ins ( -- at the inventory
    id text PRIMARY KEY, -- SHA-256 of the id that the browser has
    key_sha256 bytea NOT NULL,
    opened_at bigint NOT NULL,
    used_at bigint NOT NULL
  );

  CREATE TABLE run_time (id int PRIMARY KEY CHECK (id = 1), ms bigint NOT NULL);
  INSERT INTO run_time VALUES (1, 0);

  CREATE TABLE replicas (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    seen_at timestamptz NOT NULL
  );
  CREATE TABLE changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    origin uuid NOT NULL, -- the replica
    lineages text[], -- NULL for all
    is_urgent boolean NOT NULL, -- to be confirmed
    at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE INDEX changes_xid ON changes (xid);
  CREATE TABLE confirmations (
    change bigint,
    replica uuid,
    PRIMARY KEY (change, replica)
  );
  `,
  `
  ALTER TABLE events ADD COLUMN receiver text NOT NULL DEFAULT 'webhook'; -- by name
  DROP INDEX events_due;
  CREATE INDEX events_due ON events (receiver, next_at);
  CREATE INDEX events_order ON events (receiver, id);
  `,
  `
  -- Each order of the inventory, with all that is filtered by: rows are large.
  DROP INDEX certificates_upcoming;
  DROP INDEX certificates_ending;
  CREATE INDEX certificates_upcoming
    ON certificates (next_at, id) INCLUDE (not_after, renew_at, issuer, searched) WHERE is_current;
  CREATE INDEX certificates_by_expiry ON certificates (not_after, id) INCLUDE (renew_at, issuer)
    WHERE is_current;
  CREATE INDEX certificates_by_name
    ON certificates (domain COLLATE "C", id) INCLUDE (not_after, renew_at, issuer) WHERE is_current;
  CREATE INDEX certificates_unrenewed ON certificates (not_after, id)
    WHERE is_current AND renew_at IS NULL;
  `,
  `
  -- Without a condition, or it would be read whole for what is current, while there is little.
  CREATE INDEX certificates_fingerprint ON certificates (sha256(certificate));
  `,
  `
  -- Read no more. It stays for replicas of the last version beside this one.
  ALTER TABLE leases ALTER COLUMN is_held SET DEFAULT false;
  `,
  `
  ALTER TABLE replicas ADD COLUMN joined_at timestamptz NOT NULL DEFAULT clock_timestamp();
  `,
]
