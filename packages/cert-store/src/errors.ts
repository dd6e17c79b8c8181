import { TitledError, type TitledErrorOptions } from '@gatehouse/net'

/** The errors of this package, each with a title and what to do about it. */
export const CERT_STORE_ERRORS = {
  CERT_BACKUP_REFUSED: {
    title: 'Backup cannot be restored',
    action:
      'Use a complete file written by `backup`, of this version or an older one. Name the store that it ' +
      'replaces with `--over`, or accept with `--forget` what may come back.',
  },
  CERT_FILE_FAILED: {
    title: 'File could not be written',
    action:
      'Name a file that does not exist yet, as no file is overwritten. Check the folder, its permissions and the free space.',
  },
  CERT_LEASE_LOST: {
    title: 'Another replica took over',
    action: 'Try again: the other replica issues the certificate.',
  },
  CERT_MASTER_KEY_UNUSABLE: {
    title: 'Master key cannot be used',
    action:
      'The message says why. Restore the file at `storage.masterKeyFile` that the store was created with: 32 random ' +
      'bytes in base64, outside of the data folder, readable by the service alone (`chmod 600`).',
  },
  CERT_ORDER_ENDED: {
    title: 'Order has ended',
    action:
      'Ask for the order of the ACME client again: it has its certificate, or place another one.',
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
