import { existsSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { CertServiceConfig } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import type { Keyring } from '../sealing/keyring.ts'
import { openKeyring } from '../sealing/master-key.ts'
import { openStore, storeFile } from '../store/open.ts'
import type { Store } from '../store/store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    readonly store: Store
    /** Seals the private keys of the store. */
    readonly keyring: Keyring
  }
}

export interface StoreOptions {
  readonly storage: CertServiceConfig['storage']
  /** Whether a store may be made for a master key that exists. */
  readonly isNew?: boolean | undefined
  /** Milliseconds from a clock that cannot be set; default: the run time of the process. */
  readonly elapsed?: (() => number) | undefined
  /** Default: SQLite in `storage.path`. */
  readonly open?: typeof openStore | undefined
}

/** Opens the store and its keyring. @throws CertError CERT_STORE_…, CERT_MASTER_KEY_… */
export const store = fp<StoreOptions>(
  async (app: FastifyInstance, { storage, isNew, elapsed, open = openStore }) => {
    const { path: folder, masterKeyFile } = storage
    if (!isNew) refuseLostStore(storage)
    const store = await open({ folder, elapsed })
    app.addHook('onClose', async () => store.close())
    app.decorate('store', store)
    app.decorate('keyring', await openKeyring({ masterKeyFile, folder, store }))
  },
  { fastify: '5.x', name: 'cert-service/store' },
)

/** A master key without a store means that the store is lost; a new CA would only hide that. */
function refuseLostStore({ path, masterKeyFile }: CertServiceConfig['storage']): void {
  if (existsSync(storeFile(path)) || !existsSync(masterKeyFile)) return
  const cure = 'restore a backup, or start once with `serve --new` to make a new CA'
  throw new CertError(
    'CERT_STORE_LOST',
    `${masterKeyFile} is the key of a store, but there is none in ${path}: ${cure}.`,
  )
}
