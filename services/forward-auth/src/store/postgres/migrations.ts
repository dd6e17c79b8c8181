/** The tables of forward-auth. Each text runs once, in its own transaction: add further ones at the end. */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE revoked (
    sid text PRIMARY KEY,
    person text NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    generation bigint NOT NULL,
    until bigint NOT NULL,
    due bigint NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
  );
  CREATE INDEX revoked_xid ON revoked (xid);
  COMMENT ON TABLE revoked IS 'Sessions that ended early; a sid with ~ stands for all of a person until last.';

  CREATE TABLE completed (
    login text PRIMARY KEY,
    until bigint NOT NULL,
    due bigint NOT NULL
  );
  COMMENT ON TABLE completed IS 'Logins that completed, so that none does twice.';

  CREATE TABLE running (one boolean PRIMARY KEY DEFAULT true CHECK (one), ms bigint NOT NULL);
  INSERT INTO running (ms) VALUES (0);
  COMMENT ON TABLE running IS 'How long the service has run, whatever clocks were set to.';

  CREATE TABLE secrets (name text PRIMARY KEY, sealed text NOT NULL);
  COMMENT ON TABLE secrets IS 'Secrets of all instances, sealed with a key of session.keys.';

  CREATE TABLE audit (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL UNIQUE,
    at timestamptz NOT NULL,
    ran bigint NOT NULL,
    event text NOT NULL,
    portal text NOT NULL,
    provider text,
    person text,
    name text,
    host text,
    client_address text,
    request_id text NOT NULL,
    code text
  );
  CREATE INDEX audit_at ON audit (at, seq);
  COMMENT ON TABLE audit IS 'Who signed in and out, and who was refused.';
  `,
  'ALTER TABLE audit ADD COLUMN refused_by text, ADD COLUMN clause text',
]
