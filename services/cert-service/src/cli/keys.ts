import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { toPem } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit'
import type { IssuerConfig } from '../config/issuers.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import { createPrivateFile } from '../files.ts'
import { openAcmeServer } from '../issuers/acme/server.ts'
import { Ledger } from '../limits/ledger.ts'
import { dataKeyLabel, type Keyring } from '../sealing/keyring.ts'
import {
  adoptNextMasterKey,
  createMasterKey,
  matchMasterKey,
  nextFile,
  openKeyring,
} from '../sealing/master-key.ts'
import { openStore } from '../store/open.ts'
import { requireStore } from '../store/sqlite.ts'
import type { Store } from '../store/store.ts'

/** The store of a service that is stopped, or a database; and its master key. */
interface Stopped extends Partial<Omit<CertServiceConfig['storage'], 'path' | 'masterKeyFile'>> {
  readonly folder: string
  readonly masterKeyFile: string
}

async function openStopped(stopped: Stopped): Promise<Store> {
  const { folder, url, caFile, schema = '' } = stopped
  if (url === undefined) requireStore(folder)
  const storage = { path: folder, ...(url && { url }), ...(caFile && { caFile }), schema }
  return openStore({ storage, name: 'gatehouse-certs', log: { info() {}, warn() {} } })
}

/** Its keyring. */
function open(stopped: Stopped, store: Store): Promise<Keyring> {
  const { url, folder, masterKey, masterKeyFile } = stopped
  return openKeyring({ ...(url === undefined && { folder }), masterKey, masterKeyFile, store })
}

/**
 * Moves the root's private key out of the store into a new file (PEM, PKCS#8), to be kept offline.
 * @throws CertError CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_ROOT_KEY_ABSENT, CERT_MASTER_KEY_*,
 * CERT_FILE_EXISTS, CERT_FILE_FAILED
 */
export async function detachRoot({
  file,
  ...stopped
}: Stopped & { readonly file: string }): Promise<void> {
  await using store = await openStopped(stopped)
  const root = (await store.listAuthorities()).find(({ role }) => role === 'root')
  if (!root?.sealedKey)
    throw new CertError('CERT_ROOT_KEY_ABSENT', 'The store holds no private key of the root.')
  const keyring = await open(stopped, store)
  const pkcs8 = keyring.open(root.sealedKey, root.certificate)
  await createPrivateFile(file, async (draft) => {
    await writeFile(draft, toPem('PRIVATE KEY', pkcs8), { flush: true })
    // The store's copy goes only when the file is known to hold the key.
    const key = createPrivateKey(await readFile(draft, 'utf8'))
    if (!new X509Certificate(root.certificate).checkPrivateKey(key))
      throw new CertError('CERT_FILE_FAILED', 'The key in the store is not the one of its root.')
  })
  await store.dropAuthorityKey(root.id)
}

/**
 * Puts a new master key in the place of the old one and wraps the data keys anew. Cut short at any
 * point, the store opens with the one key or the other, and the next start tidies up.
 * @throws CertError CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_MASTER_KEY_*, CERT_FILE_FAILED
 */
export async function rekey({ masterKey, ...stopped }: Stopped): Promise<void> {
  const { masterKeyFile } = stopped
  if (masterKey !== undefined)
    throw new CertError(
      'CERT_FILE_FAILED',
      'A key in `storage.masterKey` cannot be replaced here: name a `masterKeyFile`.',
    )
  await using store = await openStopped(stopped)
  const keyring = await store.loadKeyring()
  if (!keyring) throw new CertError('CERT_STORE_MISSING', 'The store has no keys yet.')
  const old = await matchMasterKey(masterKeyFile, keyring.check)
  const next = await createMasterKey(nextFile(masterKeyFile))
  const dataKeys = keyring.dataKeys.map((record) => {
    const dataKey = old.unwrap(record.wrapped, dataKeyLabel(record))
    return { ...record, wrapped: next.wrap(dataKey, dataKeyLabel(record)) }
  })
  if (!(await store.replaceKeyring({ check: next.check, dataKeys }, old.check)))
    throw new CertError('CERT_MASTER_KEY_WRONG', 'The master key was replaced meanwhile.')
  await adoptNextMasterKey(masterKeyFile)
}

/**
 * Gives the account of an issuer another key (RFC 8555 section 7.3.5).
 * @throws AcmeError; CertError CERT_ISSUER_ABSENT, CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_MASTER_KEY_*
 */
export async function rollover({
  issuers,
  name,
  ...stopped
}: Stopped & { readonly issuers: readonly IssuerConfig[]; readonly name: string }): Promise<void> {
  const config = issuers.find((issuer) => issuer.name === name)
  if (!config) throw new CertError('CERT_ISSUER_ABSENT', `no issuer is called ${name}`)
  await using store = await openStopped(stopped)
  const keyring = await open(stopped, store)
  const limits = await Ledger.open({ issuers, store, now: systemClock.now, log: console })
  const log = { info() {} }
  const server = await openAcmeServer(config, { store, keyring, clock: systemClock, limits, log })
  await server.account.rollover().finally(server.close)
}
