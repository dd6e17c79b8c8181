import type { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { CertStoreError } from '../errors.ts'

/** Primary result codes of SQLite for what cannot be read, or is not as a store has it. */
const UNREADABLE = [1, 10, 11, 19, 26]
const SAME = 'theirs.serial_number = ours.serial_number AND theirs.chain = ours.chain'
/** SQL: a sealed key names its data key in the bytes after the first. */
const opens = (sealed: string) => `hex(substr(${sealed}, 2, 4)) IN opened`
const IS_FOREIGN = `
  SELECT 1 FROM (SELECT sum(certificate IN (SELECT certificate FROM authorities)) AS ours FROM old.authorities)
  WHERE ours = 0 AND EXISTS (SELECT 1 FROM authorities)`

/** The columns of a table, without some. */
type Columns = (table: string, ...without: readonly string[]) => string

/** SQL: the rows that are not here. */
const copy = (table: string, columns: string, where = '') =>
  `INSERT OR IGNORE INTO ${table} (${columns}) SELECT ${columns} FROM old.${table} ${where}`

/** SQL: the rows that are there, and no others. */
function replace(table: string, where?: string) {
  return (columns: Columns) => `DELETE FROM ${table}; ${copy(table, columns(table), where)}`
}

/** SQL by table: what the store `old` knows since it was as this one is. An id is the same in both. */
const STEPS: Readonly<Record<string, (columns: Columns) => string>> = {
  data_keys: (columns) => `
    UPDATE data_keys SET seals = max(data_keys.seals, theirs.seals)
      FROM old.data_keys AS theirs WHERE theirs.id = data_keys.id;
    ${copy('data_keys', columns('data_keys'), 'WHERE EXISTS (SELECT 1 FROM master_key JOIN old.master_key USING (check_value))')};
    INSERT INTO opened SELECT format('%08X', id) FROM data_keys JOIN old.data_keys USING (id, wrapped)`,
  authorities: (columns) => `
    UPDATE authorities SET sealed_key = NULL FROM old.authorities AS theirs
      WHERE theirs.certificate = authorities.certificate AND theirs.sealed_key IS NULL;
    ${copy('authorities', columns('authorities'), `WHERE sealed_key IS NULL OR ${opens('sealed_key')} ORDER BY id`)}`,
  // A roll goes on from where it was there, if both roots are here.
  rolls: (columns) => `
    INSERT OR REPLACE INTO rolls (${columns('rolls')}) SELECT ${columns('rolls')} FROM old.rolls AS theirs
      WHERE 2 = (SELECT count(*) FROM authorities JOIN old.authorities USING (id, certificate)
        WHERE id IN (theirs.from_root, theirs.to_root))`,
  crls: (columns) => `
    INSERT OR REPLACE INTO crls (authority_id, ${columns('crls', 'authority_id')})
      SELECT mine.id, ${columns('crls', 'authority_id')} FROM old.crls AS theirs
      JOIN old.authorities AS signer ON signer.id = theirs.authority_id
      JOIN authorities AS mine ON mine.certificate = signer.certificate
      WHERE NOT EXISTS (SELECT 1 FROM crls AS ours WHERE ours.authority_id = mine.id
        AND (length(ours.number), ours.number) >= (length(theirs.number), theirs.number))`,
  chains: (columns) => copy('chains', columns('chains')),
  // Certificates that were withdrawn or revoked there are so here. One that followed another there follows here, if
  // its key opens.
  certificates: (columns) => {
    const same = columns('certificates', 'id', 'is_current', 'sealed_key', 'asked_by')
    return `
    UPDATE certificates AS ours SET is_current = 0, sealed_key = NULL,
      revoked_at = coalesce(ours.revoked_at, theirs.revoked_at),
      revocation_reason = coalesce(ours.revocation_reason, theirs.revocation_reason)
      FROM old.certificates AS theirs
      WHERE ${SAME} AND (theirs.revoked_at IS NOT NULL OR NOT theirs.is_current AND NOT EXISTS (
        SELECT 1 FROM old.certificates AS next WHERE next.request_key = theirs.request_key AND next.is_current));
    UPDATE certificates AS ours SET (asked_by, replaced_by, replacement_reason, downloaded_at)
      = (theirs.asked_by, theirs.replaced_by, theirs.replacement_reason, theirs.downloaded_at)
      FROM old.certificates AS theirs WHERE ${SAME};
    INSERT INTO certificates (id, is_current, sealed_key, ${same})
      SELECT CASE WHEN id IN (SELECT id FROM certificates) THEN NULL ELSE id END, 0,
        CASE WHEN ${opens('sealed_key')} THEN sealed_key END, ${same} FROM old.certificates AS theirs
      WHERE NOT EXISTS (SELECT 1 FROM certificates AS ours WHERE ${SAME});
    INSERT INTO next SELECT ours.id, theirs.request_key, theirs.asked_by
      FROM old.certificates AS theirs JOIN certificates AS ours ON ${SAME}
      WHERE theirs.is_current AND theirs.revoked_at IS NULL AND NOT ours.is_current
        AND (ours.sealed_key IS NULL) = (theirs.sealed_key IS NULL);
    UPDATE certificates AS ours SET is_current = 0, sealed_key = NULL, asked_by = NULL
      FROM old.certificates AS theirs, next
      WHERE ${SAME} AND ours.is_current AND ours.request_key = next.request_key;
    UPDATE certificates AS ours SET is_current = 1, asked_by = next.asked_by FROM next
      WHERE ours.id = next.id AND NOT EXISTS (
        SELECT 1 FROM certificates AS held WHERE held.request_key = ours.request_key AND held.is_current);
    DELETE FROM certificate_names WHERE certificate IN (SELECT id FROM certificates WHERE NOT is_current);
    INSERT OR IGNORE INTO certificate_names SELECT value, certificates.id, not_after
      FROM next JOIN certificates USING (id), json_each(names) AS name WHERE is_current AND name.key > 0`
  },
  transitions: (columns) => copy('transitions', columns('transitions')),
  // Orders that have ended since do not go on.
  orders: replace('orders', `WHERE sealed_key IS NULL OR ${opens('sealed_key')}`),
  // The CA may have taken another key since.
  acme_accounts: (columns) => `
    INSERT OR REPLACE INTO acme_accounts (${columns('acme_accounts')}) SELECT ${columns('acme_accounts')} FROM old.acme_accounts
      WHERE ${opens('sealed_key')} AND (next_key IS NULL OR ${opens('next_key')})`,
  // The quota counts certificates that were taken over.
  usage: replace('usage'),
  compromised_keys: (columns) => copy('compromised_keys', columns('compromised_keys')),
  external_accounts: () => `
    INSERT INTO external_accounts (caller, counter) SELECT caller, counter FROM old.external_accounts WHERE true
      ON CONFLICT (caller) DO UPDATE SET counter = max(external_accounts.counter, excluded.counter)`,
  // An account that is not there any more has ended too.
  served_accounts: replace('served_accounts'),
  served_orders: replace('served_orders'),
  audit: (columns) => copy('audit', columns('audit')),
  run_time: () => 'UPDATE run_time SET ms = max(ms, (SELECT ms FROM old.run_time))',
}

/**
 * Takes over, table by table, what a later state of the same store has taken back or made since: revocations,
 * compromised keys, ended accounts, larger counters and revocation lists, and new certificates. Both stay in files.
 * @param file - the later state, which stays as it is and may be damaged
 * @returns the tables that cannot be read there
 * @throws CertStoreError CERT_BACKUP_REFUSED for a store of another CA; what SQLite throws about `sqlite`
 */
export function takeOver(sqlite: DatabaseSync, file: string): readonly string[] {
  sqlite.exec(`
    CREATE TEMP TABLE opened (id TEXT PRIMARY KEY);
    CREATE TEMP TABLE next (id INTEGER PRIMARY KEY, request_key TEXT, asked_by TEXT)`)
  const attach = () => sqlite.prepare('ATTACH ? AS old').run(`${pathToFileURL(file)}?mode=ro`)
  if (!isRead(sqlite, attach)) return Object.keys(STEPS)
  isRead(sqlite, () => refuseForeign(sqlite, file))
  const columns: Columns = (table, ...without) => {
    const rows = sqlite.prepare('SELECT name FROM pragma_table_info(?)').all(table)
    return rows.flatMap(({ name }) => (without.includes(String(name)) ? [] : [name])).join(', ')
  }
  const lost = Object.entries(STEPS).filter(
    ([table, step]) =>
      !isRead(sqlite, () => {
        const checked = sqlite.prepare(`PRAGMA old.integrity_check(${table})`).get()
        if (checked?.integrity_check !== 'ok') return false
        return sqlite.exec(`BEGIN; ${step(columns)}; COMMIT`)
      }),
  )
  sqlite.exec('DETACH old')
  return lost.map(([table]) => table)
}

/** Whether work on the other store could be done. */
function isRead(sqlite: DatabaseSync, work: () => unknown): boolean {
  try {
    return work() !== false
  } catch (error) {
    if (sqlite.isTransaction) sqlite.exec('ROLLBACK')
    const { errcode = 0 } = error as { errcode?: number }
    if (UNREADABLE.includes(errcode & 0xff)) return false
    throw error
  }
}

function refuseForeign(sqlite: DatabaseSync, file: string): void {
  if (sqlite.prepare(IS_FOREIGN).get())
    throw new CertStoreError('CERT_BACKUP_REFUSED', `${file} is a store of another CA.`)
}
