import { TitledError, type TitledErrorOptions } from '@gatehouse/net'

/** The errors of this package, each with a title and what to do about it. */
export const CERT_STORE_ERRORS = {
  CERT_BACKUP_FORGETS: {
    title: 'Backup does not know what was taken back',
    action:
      'Name the store that it replaces with `--over`, or accept with `--forget` what may come back.',
  },
  CERT_BACKUP_INVALID: {
    title: 'Backup is not valid',
    action: 'Use a complete file written by `backup`, of this version or an older one.',
  },
  CERT_FILE_FAILED: {
    title: 'File could not be written',
    action:
      'Name a file that does not exist yet: none is overwritten. Check the folder, its permissions and the free space.',
  },
  CERT_LEASE_LOST: {
    title: 'Another replica took over',
    action: 'Try again: the other replica issues the certificate.',
  },
  CERT_MASTER_KEY_EXPOSED: {
    title: 'Master key is readable by others',
    action:
      'Restrict the file to its owner (`chmod 600`), keep it out of the data folder, and consider `rekey`.',
  },
  CERT_MASTER_KEY_INVALID: {
    title: 'Master key is not valid',
    action: 'Restore the file: 32 random bytes in base64, readable by the service.',
  },
  CERT_MASTER_KEY_MISSING: {
    title: 'Master key is missing',
    action: 'Restore the file at `storage.masterKeyFile`. Without it, no stored key can be read.',
  },
  CERT_MASTER_KEY_WRONG: {
    title: 'Master key belongs to another store',
    action: 'Restore the master key that this data folder was created with.',
  },
  CERT_ORDER_ENDED: {
    title: 'Order has ended',
    action:
      'Ask for the order of the ACME client again: it has its certificate, or place another one.',
  },
  CERT_SEAL_BROKEN: {
    title: 'Sealed key cannot be opened',
    action: 'The store was modified by something else. Restore a backup.',
  },
  CERT_STORE_LOCKED: {
    title: 'Store is in use',
    action:
      'Stop the other service first, or all replicas of a database. Each service needs its own data folder.',
  },
  CERT_STORE_MISSING: {
    title: 'Store does not exist',
    action: 'Check `storage.path`. The service creates the store at its first start.',
  },
  CERT_STORE_NOT_EMPTY: {
    title: 'Target is not empty',
    action: 'Name a folder that is empty or does not exist, or a database whose schema is empty.',
  },
  CERT_STORE_UNFINISHED: {
    title: 'Store was not moved completely',
    action:
      'Run the same `move` again: it continues where it stopped. Or drop the schema, and continue with the old store.',
  },
} as const satisfies Record<`CERT_${string}`, { title: string; action: string }>

export type CertStoreErrorCode = keyof typeof CERT_STORE_ERRORS

/** An error of this package. `message` names the value that is at fault. */
export class CertStoreError extends TitledError<CertStoreErrorCode> {
  override readonly name = 'CertError'

  constructor(code: CertStoreErrorCode, message: string, options?: TitledErrorOptions) {
    super(CERT_STORE_ERRORS, code, message, options)
  }
}

export function leaseLost(requestKey: string): CertStoreError {
  return new CertStoreError('CERT_LEASE_LOST', `The work on ${requestKey} was taken over.`)
}
