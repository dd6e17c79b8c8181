import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { isFirstStart, type Keyring, openKeyring, openStore } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import { type Clock, systemClock } from '@gatehouse/service-kit/clock'
import { StoreError } from '@gatehouse/store'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from './config/schema.ts'

/** A database that starts, or whose standby takes over, is waited for. Less than the timeout of plugins. */
const PATIENCE = 30_000

declare module 'fastify' {
  interface FastifyInstance {
    readonly store: Store
    /** Seals the private keys of the store. */
    readonly keyring: Keyring
  }
}

export interface StoreOptions extends Pick<CertServiceConfig, 'storage'> {
  readonly server: Pick<CertServiceConfig['server'], 'port'>
  /** Whether a store may be made for a master key that exists. */
  readonly isNew?: boolean | undefined
  /** Milliseconds from a clock that cannot be set; default: the run time of the process. */
  readonly elapsed?: (() => number) | undefined
  /** Default: by `storage`. */
  readonly open?: typeof openStore | undefined
}

/** Opens the store and its keyring. @throws StoreError; CertStoreError CERT_MASTER_KEY_UNUSABLE */
export const store = fp<StoreOptions>(
  async (app: FastifyInstance, options) => {
    const { storage, server, isNew, elapsed, open = openStore } = options
    if (!isNew && isFirstStart(storage)) refuseLostStore(storage)
    const name = `${hostname()}:${server.port}`
    const store = await open({ storage, name, elapsed, patience: PATIENCE, log: app.log })
    app.addHook('onClose', async () => store.close())
    app.decorate('store', store)
    app.decorate('keyring', await keyringOf(storage, store))
  },
  { name: 'cert-service/store' },
)

type KeyStorage = Pick<CertServiceConfig['storage'], 'path' | 'masterKeyFile' | 'masterKey' | 'url'>

/** Opens the keyring of a store. @throws CertStoreError CERT_MASTER_KEY_UNUSABLE */
export function keyringOf({ url, path, masterKey, masterKeyFile }: KeyStorage, store: Store) {
  const folder = url === undefined ? path : undefined
  return openKeyring({ folder, masterKey, masterKeyFile, store })
}

/** The clock of a shared store, so that replicas agree; otherwise that of the system. */
export function clockOf({ now = systemClock.now }: Pick<Store, 'now'>): Clock {
  return { ...systemClock, now }
}

/** A master key without a store means that the store is lost; a new CA would only hide that. */
function refuseLostStore({ path, masterKeyFile }: CertServiceConfig['storage']): void {
  if (!existsSync(masterKeyFile)) return
  const cure = 'restore a backup, or start once with `serve --new` to make a new CA'
  throw new StoreError(
    'STORE_MISSING',
    `${masterKeyFile} is the key of a store, but there is none in ${path}: ${cure}.`,
  )
}
