import type { Postgres } from '@gatehouse/postgres'
import { CertError } from '../../errors.ts'

/** The table that is in a store while another one is moved there: it names the other by its keyring. */
export const UNFINISHED = 'unfinished_move'

/** Whether rows of another store are still to come. */
export async function isUnfinished(postgres: Pick<Postgres, 'all'>): Promise<boolean> {
  const sql = 'SELECT to_regclass($1) IS NOT NULL AS exists'
  return (await postgres.all<{ exists: boolean }>(sql, [UNFINISHED]))[0]?.exists === true
}

/** @throws CertError CERT_STORE_UNFINISHED for a store that was not moved completely */
export async function refuseUnfinished(postgres: Pick<Postgres, 'all'>): Promise<void> {
  if (await isUnfinished(postgres))
    throw new CertError(
      'CERT_STORE_UNFINISHED',
      'A store is being moved here, and is not complete.',
    )
}
