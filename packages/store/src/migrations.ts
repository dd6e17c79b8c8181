import { hash } from 'node:crypto'
import type { Engine } from './engine.ts'
import { StoreError } from './errors.ts'

/** A step of the schema, as SQL of each engine. One that was released is never changed: add another one. */
export type Migration = (dialect: Engine['dialect']) => string

/** The migrations that a store has had. */
export interface Applied {
  readonly version: number
  /** The digest of its SQL. */
  readonly digest: string
}

/** The table of a store's migrations, beside the tables of the service. Another one has its run time. */
export const VERSIONS = 'schema_versions'
export const RUN_TIME = 'run_time'

/** A migration as it is applied to a store. */
export interface Step extends Applied {
  readonly sql: string
}

/** The steps of migrations, in their order. */
export function stepsOf(
  migrations: readonly Migration[],
  dialect: Engine['dialect'],
): readonly Step[] {
  return migrations.map((migration, i) => {
    const sql = migration(dialect)
    return { version: i + 1, digest: hash('sha256', sql).slice(0, 32), sql }
  })
}

/**
 * The migrations that a store lacks.
 * @throws StoreError `STORE_NEWER`, or `STORE_UNRELEASED` if it had others than these
 */
export function missing(applied: readonly Applied[], steps: readonly Step[]): readonly Step[] {
  if (applied.length > steps.length)
    throw new StoreError(
      'STORE_NEWER',
      `The store has schema ${applied.length}, and this version knows up to ${steps.length}.`,
    )
  if (!applied.every(({ version, digest }) => digest === steps[version - 1]?.digest))
    throw unreleased()
  return steps.slice(applied.length)
}

/** @throws StoreError as {@link missing}, and `STORE_MISSING` */
export function requireAll(applied: readonly Applied[], steps: readonly Step[]): void {
  if (missing(applied, steps).length === 0) return
  throw new StoreError(
    'STORE_MISSING',
    `The store has schema ${applied.length}, and this version needs ${steps.length}.`,
  )
}

export function unreleased(): StoreError {
  return new StoreError(
    'STORE_UNRELEASED',
    'The store was made by a version that was never released.',
  )
}
