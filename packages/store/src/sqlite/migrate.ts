import type { DatabaseSync } from 'node:sqlite'
import {
  type Applied,
  type Migration,
  missing,
  RUN_TIME,
  requireAll,
  stepsOf,
  unreleased,
  VERSIONS,
} from '../migrations.ts'

const OWN_TABLES = `
  CREATE TABLE ${VERSIONS} (version INTEGER PRIMARY KEY, digest TEXT NOT NULL) STRICT;
  CREATE TABLE ${RUN_TIME} (id INTEGER PRIMARY KEY CHECK (id = 1), ms INTEGER NOT NULL) STRICT;
  INSERT INTO ${RUN_TIME} VALUES (1, 0);`
const ADD = `INSERT INTO ${VERSIONS} (version, digest) VALUES (?, ?)`

/**
 * Runs the migrations that a store lacks, all or none.
 * @throws StoreError `STORE_NEWER`, `STORE_UNRELEASED`
 */
export function migrateSqlite(sqlite: DatabaseSync, migrations: readonly Migration[]): void {
  const steps = stepsOf(migrations, 'sqlite')
  const earlier = appliedTo(sqlite)
  if (earlier && missing(earlier, steps).length === 0) return
  sqlite.exec('BEGIN IMMEDIATE')
  try {
    // Another process may have migrated it meanwhile.
    const applied = appliedTo(sqlite)
    if (!applied) sqlite.exec(OWN_TABLES)
    for (const { version, digest, sql } of missing(applied ?? [], steps)) {
      sqlite.exec(sql)
      sqlite.prepare(ADD).run(version, digest)
    }
    sqlite.exec('COMMIT')
  } catch (error) {
    if (sqlite.isTransaction) sqlite.exec('ROLLBACK')
    throw error
  }
}

/** Changes nothing. @throws StoreError `STORE_MISSING`, `STORE_NEWER`, `STORE_UNRELEASED` */
export function requireMigratedSqlite(
  sqlite: DatabaseSync,
  migrations: readonly Migration[],
): void {
  requireAll(appliedTo(sqlite) ?? [], stepsOf(migrations, 'sqlite'))
}

/** Undefined if the file is empty. */
function appliedTo(sqlite: DatabaseSync): readonly Applied[] | undefined {
  const tables = sqlite.prepare('SELECT name FROM sqlite_schema').all()
  if (tables.length === 0) return undefined
  if (!tables.some(({ name }) => name === VERSIONS)) throw unreleased()
  const rows = sqlite.prepare(`SELECT version, digest FROM ${VERSIONS} ORDER BY version`).all()
  return rows as unknown as readonly Applied[]
}
