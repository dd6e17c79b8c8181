import { CertError } from '../errors.ts'
import { dataKeyLabel } from '../sealing/keyring.ts'
import {
  adoptNextMasterKey,
  createMasterKey,
  matchMasterKey,
  nextFile,
} from '../sealing/master-key.ts'
import { openStore, requireStore } from '../store/open.ts'

/**
 * Puts a new master key in the place of the old one and wraps the data keys anew. Cut short at any
 * point, the store opens with the one key or the other, and the next start tidies up.
 *
 * @throws CertError CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_MASTER_KEY_*, CERT_FILE_FAILED
 */
export async function rekey({
  folder,
  masterKeyFile,
}: {
  folder: string
  masterKeyFile: string
}): Promise<void> {
  requireStore(folder)
  const store = await openStore({ folder })
  try {
    const keyring = await store.loadKeyring()
    if (!keyring)
      throw new CertError('CERT_STORE_MISSING', `The store in ${folder} has no keys yet.`)
    const old = await matchMasterKey(masterKeyFile, keyring.check)
    const next = await createMasterKey(nextFile(masterKeyFile))
    await store.saveKeyring({
      check: next.check,
      dataKeys: keyring.dataKeys.map((record) => {
        const dataKey = old.unwrap(record.wrapped, dataKeyLabel(record))
        return { ...record, wrapped: next.wrap(dataKey, dataKeyLabel(record)) }
      }),
    })
    await adoptNextMasterKey(masterKeyFile)
  } finally {
    await store.close()
  }
}
