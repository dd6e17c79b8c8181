import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { toPem } from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import { createPrivateFile } from '../files.ts'
import { openKeyring } from '../sealing/keyring.ts'
import { openStore, requireStore } from '../store/open.ts'

/**
 * Moves the root's private key out of the store into a new file (PEM, PKCS#8), to be kept offline.
 *
 * @throws CertError CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_ROOT_KEY_ABSENT, CERT_MASTER_KEY_*,
 * CERT_FILE_EXISTS, CERT_FILE_FAILED
 */
export async function detachRoot({
  folder,
  masterKeyFile,
  file,
}: {
  folder: string
  masterKeyFile: string
  file: string
}): Promise<void> {
  requireStore(folder)
  const store = await openStore({ folder })
  try {
    const root = (await store.listAuthorities()).find(({ role }) => role === 'root')
    if (!root?.sealedKey) {
      throw new CertError('CERT_ROOT_KEY_ABSENT', 'The store holds no private key of the root.')
    }
    const keyring = await openKeyring({ folder, masterKeyFile, store })
    const pkcs8 = keyring.open(root.sealedKey, root.certificate)
    await createPrivateFile(file, async (draft) => {
      await writeFile(draft, toPem('PRIVATE KEY', pkcs8), { flush: true })
      await verify(draft, root.certificate)
    })
    await store.dropAuthorityKey(root.id)
  } finally {
    await store.close()
  }
}

/** The store's copy goes only when the file is known to hold the key. */
async function verify(file: string, certificate: Uint8Array): Promise<void> {
  const key = createPrivateKey(await readFile(file, 'utf8'))
  if (new X509Certificate(certificate).checkPrivateKey(key)) return
  throw new CertError('CERT_FILE_FAILED', 'The key in the store is not the one of its root.')
}
