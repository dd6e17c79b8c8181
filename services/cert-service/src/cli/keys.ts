import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { format } from 'node:util'
import { createPrivateFile, openStore, replaceMasterKey } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import { rolloverAccount, rootsAt } from '@gatehouse/issuance/issuers'
import type { IssuerConfig } from '@gatehouse/issuance/options'
import { toPem } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { escaped } from '@gatehouse/service-kit/program'
import type { CertServiceConfig } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import { keyringOf } from '../store.ts'
import { VERSION } from '../version.ts'

type StorageConfig = CertServiceConfig['storage']
type Rollover = { readonly issuers: readonly IssuerConfig[]; readonly name: string }

/** The store of a service that is stopped, or a database; and its master key. */
type Stopped = Pick<StorageConfig, 'path' | 'masterKeyFile'> & Partial<StorageConfig>

function openStopped(stopped: Stopped): Promise<Store> {
  const log = { info() {}, warn() {} }
  const storage = { schema: '', ...stopped }
  return openStore({ storage, existing: true, name: 'gatehouse-certs', log })
}

/**
 * Moves the private key of the root that signs out of the store into a new file (PEM, PKCS#8), to be kept offline.
 * @throws StoreError STORE_MISSING, STORE_LOCKED; CertError CERT_ROOT_KEY_ABSENT, CERT_MASTER_KEY_UNUSABLE, CERT_FILE_FAILED
 */
export async function detachRoot(options: Stopped & { readonly file: string }): Promise<void> {
  const { file, ...stopped } = options
  await using store = await openStopped(stopped)
  const roots = (await store.listAuthorities()).filter(({ role }) => role === 'root')
  const [roll] = await store.listRolls()
  const root = roll ? roots.find(({ id }) => id === rootsAt(roll).signer) : roots[0]
  if (!root?.sealedKey)
    throw new CertError('CERT_ROOT_KEY_ABSENT', 'The store holds no private key of the root.')
  const keyring = await keyringOf(stopped, store)
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
 * Puts a new master key in the place of the old one: see {@link replaceMasterKey}.
 * @throws StoreError STORE_MISSING, STORE_LOCKED; CertError CERT_MASTER_KEY_UNUSABLE, CERT_FILE_FAILED
 */
export async function rekey({ masterKey, ...stopped }: Stopped): Promise<void> {
  if (masterKey !== undefined)
    throw new CertError(
      'CERT_FILE_FAILED',
      'A key in `storage.masterKey` cannot be replaced here: name a `masterKeyFile`.',
    )
  await using store = await openStopped(stopped)
  await replaceMasterKey(store, stopped.masterKeyFile)
}

/**
 * Gives the account of an issuer another key (RFC 8555 section 7.3.5).
 * @throws AcmeError; StoreError STORE_MISSING, STORE_LOCKED; CertError CERT_ISSUER_ABSENT, CERT_MASTER_KEY_UNUSABLE
 */
export async function rollover(options: Stopped & Rollover): Promise<void> {
  const { issuers, name, ...stopped } = options
  const config = issuers.find((issuer) => issuer.name === name)
  if (!config) throw new CertError('CERT_ISSUER_ABSENT', `no issuer is called ${name}`)
  await using store = await openStopped(stopped)
  const keyring = await keyringOf(stopped, store)
  const userAgent = `gatehouse-cert-service/${VERSION}`
  const warn = (...words: unknown[]) => process.stderr.write(escaped(`${format(...words)}\n`))
  const log = { info() {}, warn }
  await rolloverAccount(config, issuers, { store, keyring, clock: systemClock, log, userAgent })
}
