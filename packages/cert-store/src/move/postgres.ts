import { type Engine, openPostgres, parsePostgresUrl, StoreError } from '@gatehouse/store'
import { findUnfinished, noteUnfinished, refuseUnfinished } from '../engines/unfinished.ts'
import { MASTER_KEY, MIGRATIONS, TABLES } from '../schema/tables.ts'
import type { Source, Target, TargetStore } from './copy.ts'

export interface DatabaseOptions {
  readonly url: string
  /** PEM certificates of a private CA of the database. */
  readonly ca?: string | undefined
  readonly schema: string
}

/** A replica that lives is never silent for so long. */
const LIVE = `interval '15 seconds'`
const REPLICAS = `SELECT name FROM replicas WHERE seen_at > clock_timestamp() - ${LIVE} ORDER BY name`
const WRITTEN = 'SELECT 1 FROM writes WHERE at > $1::timestamptz LIMIT 1'

/**
 * @throws StoreError STORE_MISSING, STORE_NEWER, STORE_UNRELEASED, STORE_LOCKED, STORE_UNFINISHED, STORE_UNAVAILABLE
 */
export function openPostgresSource(place: DatabaseOptions): Promise<Source> {
  return open({ ...place, existing: true }, async (db) => {
    await refuseUnfinished(db)
    const { schema } = place
    const keyring = await MASTER_KEY.find(db, '')
    if (!keyring) throw new StoreError('STORE_MISSING', `The schema ${schema} holds no keys yet.`)
    const opened = await db.get<{ at: string }>('SELECT clock_timestamp()::text AS at')
    return {
      db,
      check: keyring.checkValue,
      async assertUnused() {
        await refuseReplicas(db, schema)
        if (await db.get(WRITTEN, opened?.at))
          throw new StoreError('STORE_LOCKED', `The schema ${schema} was used during the move.`)
      },
      [Symbol.asyncDispose]: () => db.close(),
    }
  })
}

/** @throws StoreError STORE_NEWER, STORE_UNRELEASED, STORE_LOCKED, STORE_NOT_EMPTY, STORE_UNAVAILABLE */
export function openPostgresTarget(place: DatabaseOptions): Promise<Target> {
  return open({ ...place, existing: false }, async (db) => {
    const existing = await findStore(db, place.schema)
    return {
      existing,
      async begin(check) {
        // The copy that was begun is of the same store.
        if (existing) await db.run(`TRUNCATE ${TABLES.map(({ name }) => name)}`)
        else await noteUnfinished(db, check)
        return { db, check, isFinished: false }
      },
      async publish() {},
      [Symbol.asyncDispose]: () => db.close(),
    }
  })
}

async function open<Side>(
  { url, ca, schema, existing }: DatabaseOptions & { readonly existing: boolean },
  use: (db: Engine) => Promise<Side>,
): Promise<Side> {
  const postgres = await openPostgres({
    url: parsePostgresUrl(url),
    ca,
    schema,
    existing,
    name: 'gatehouse-certs move',
    migrations: MIGRATIONS,
    log: { info() {}, warn() {} },
    // The service does not run meanwhile.
    elapsed: () => 0,
  })
  try {
    await refuseReplicas(postgres, schema)
    if (await postgres.tryLead('move')) return await use(postgres)
    throw new StoreError('STORE_LOCKED', `Another move uses the schema ${schema}.`)
  } catch (error) {
    await postgres.close()
    throw error
  }
}

async function refuseReplicas(db: Engine, schema: string): Promise<void> {
  const replicas = await db.all<{ name: string }>(REPLICAS)
  if (replicas.length === 0) return
  const names = replicas.map(({ name }) => name).join(', ')
  throw new StoreError(
    'STORE_LOCKED',
    `The schema ${schema} is used by ${names}; a replica that was killed counts for 15 seconds.`,
  )
}

async function findStore(db: Engine, schema: string): Promise<TargetStore | undefined> {
  const begun = await findUnfinished(db)
  if (begun) return { db, check: begun, isFinished: false }
  const keyring = await MASTER_KEY.find(db, '')
  if (keyring) return { db, check: keyring.checkValue, isFinished: true }
  for (const { name } of TABLES)
    if (await db.get(`SELECT 1 FROM ${name} LIMIT 1`))
      throw new StoreError('STORE_NOT_EMPTY', `The schema ${schema} holds ${name} already.`)
  return undefined
}
