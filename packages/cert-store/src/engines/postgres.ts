import { randomUUID } from 'node:crypto'
import {
  openPostgres,
  type Postgres,
  type PostgresOptions,
  parsePostgresUrl,
} from '@gatehouse/store'
import { Leases } from '../orders/leases.ts'
import type { Store } from '../port/store.ts'
import { SharedChanges, sessionsOf } from '../replicas/changes.ts'
import { membershipOf } from '../replicas/membership.ts'
import { MIGRATIONS, OF_PROCESSES, TABLES } from '../schema/tables.ts'
import { refuseUnfinished } from './unfinished.ts'
import { storeOn } from './whole.ts'

export interface PostgresStoreOptions
  extends Pick<PostgresOptions, 'ca' | 'schema' | 'log' | 'elapsed' | 'patience'> {
  /** `postgres://user:password@host1:5432,host2:5432/database`. */
  readonly url: string
  /** The name of this replica, which tells it from the others. */
  readonly name: string
  /** The id of this replica. Default: a new one, for as long as this process runs. */
  readonly replica?: string | undefined
}

/**
 * Opens the store in a schema of a PostgreSQL database, which is created if it is absent.
 * @throws StoreError
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { replica = randomUUID(), name, url, ...settings } = options
  const postgres = await openPostgres({
    ...settings,
    url: parsePostgresUrl(url),
    name: `${sessionsOf(replica)} ${name}`,
    migrations: MIGRATIONS,
    feeds: ['changes'],
    writable: [...TABLES, ...OF_PROCESSES].map((table) => table.name),
  })
  try {
    await refuseUnfinished(postgres)
    return await postgresStore(postgres, { ...options, replica })
  } catch (error) {
    await postgres.close()
    throw error
  }
}

/** The store of any number of replicas. */
async function postgresStore(
  postgres: Postgres,
  { replica, schema, name }: Record<'replica' | 'schema' | 'name', string>,
): Promise<Store> {
  const leases = new Leases(postgres, replica)
  const changes = new SharedChanges(postgres, { replica, schema })
  const membership = membershipOf(postgres, { name, changes, leases })
  const { prune, ...store } = storeOn(postgres, { leases, changes })
  await Promise.all([membership.join(), changes.read()])
  const close = async (): Promise<void> => {
    await membership.leave().catch(() => {})
    await postgres.close()
  }
  return {
    ...store,
    isShared: true,
    now: () => postgres.clock.now(),
    isLeader: membership.isLeader,
    async prune(now, retention) {
      const pruned = await prune(now, retention)
      await membership.tidy()
      return pruned
    },
    check: () => postgres.check(),
    // The operator of a database checks whether it is sound.
    inspect: async () => {},
    failure: () => postgres.failure(),
    close,
    [Symbol.asyncDispose]: close,
  }
}
