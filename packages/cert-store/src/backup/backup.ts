import { statSync } from 'node:fs'
import { constants, open, rename, rm } from 'node:fs/promises'
import { backup as copy, DatabaseSync } from 'node:sqlite'
import { pipeline } from 'node:stream/promises'
import { asStoreError, indexable, StoreError } from '@gatehouse/store'
import {
  assertStore,
  checkIntegrity,
  checkSchema,
  connect,
  emptyDraft,
  lockFolder,
  requireEmpty,
  requireStore,
  storeFile,
} from '../engines/sqlite.ts'
import { CertStoreError } from '../errors.ts'
import { createPrivateFile, fileError, syncFolder } from '../files.ts'
import { takeOver } from './takeover.ts'

interface Places {
  readonly folder: string
  readonly file: string
  /** Told what is being done. */
  readonly say?: (text: string) => void
}

/**
 * Copies the store of `folder`, as it is at one moment, into a new file; the service may run.
 * The keys in it are sealed: without the master key, which is not in it, they stay closed.
 * @throws StoreError STORE_MISSING, STORE_CORRUPT; CertStoreError CERT_FILE_FAILED
 */
export async function backup({ folder, file, say = () => {} }: Places): Promise<void> {
  requireStore(folder)
  await createPrivateFile(file, async (draft) => {
    try {
      await copyStore(storeFile(folder), draft, say)
      using sqlite = new DatabaseSync(draft)
      // One file, without a log beside it.
      sqlite.exec('PRAGMA journal_mode = DELETE')
      say('checking the copy')
      checkIntegrity(sqlite)
    } catch (error) {
      throw asStoreError(error)
    }
  })
}

async function copyStore(from: string, to: string, say: (text: string) => void): Promise<void> {
  say('copying the store')
  using source = new DatabaseSync(from, { readOnly: true })
  assertStore(source, from)
  // Held open, so that a busy service does not make the copy begin anew.
  source.exec('BEGIN; SELECT count(*) FROM sqlite_schema')
  await copy(source, to, {
    progress({ totalPages, remainingPages }) {
      const percent = Math.floor(100 * (1 - remainingPages / totalPages))
      say(`copying the store: ${percent} %`)
    },
  })
}

interface Restoration extends Places {
  /** The folder or file of the later state that the backup replaces: see {@link takeOver}. */
  readonly over?: string | undefined
  /** Whether what is not known to have been taken back may come back. */
  readonly forget?: boolean | undefined
  /** The names of callers, whose keys for ACME clients are replaced with `forget`. */
  readonly callers?: readonly string[]
}

interface Restored {
  /** The time of the backup (RFC 3339), if it is known. */
  readonly asOf: string
  /** Whether ACME clients need new keys. */
  readonly renewsKeys: boolean
}

/** The table of the counters of keys, of which none may come back. */
const KEYS = 'external_accounts'
const MADE = 'SELECT max(at) AS at FROM audit'
const MAY_REVIVE = ['certificates', 'external_accounts', 'served_accounts']
  .map((table) => `SELECT 1 FROM ${table}`)
  .join(' UNION ALL ')
/** SQL: beyond every counter that there may have been. */
const RENEW_KEYS = `
  INSERT INTO external_accounts (caller, counter)
    SELECT value, unixepoch() FROM json_each(?)
    UNION SELECT caller, unixepoch() FROM served_accounts WHERE caller IS NOT NULL
    UNION SELECT caller, unixepoch() FROM external_accounts WHERE true
  ON CONFLICT (caller) DO UPDATE SET counter = max(external_accounts.counter + 1, excluded.counter)`

/**
 * Makes a backup the store of `folder`, which has to be empty or absent. The master key that it was
 * made under has to be put in its place by hand. Nobody stays signed in at the inventory.
 * @throws StoreError STORE_…; CertStoreError CERT_BACKUP_REFUSED, CERT_FILE_FAILED
 */
export async function restore(options: Restoration): Promise<Restored> {
  const { folder, file, over, say = () => {} } = options
  await using opened = new AsyncDisposableStack()
  opened.defer(await lockFolder(folder))
  const draft = await emptyDraft(folder)
  opened.defer(() => rm(draft, { force: true }))
  await requireEmpty(folder, draft)
  say('copying the backup')
  await copyInto(draft, file)
  say('checking the copy')
  verify(file, draft)
  const later = over === undefined ? undefined : await openLater(over, opened)
  say('taking over what was taken back')
  const restored = takeBack(draft, later, options)
  await rename(draft, storeFile(folder))
  await syncFolder(folder)
  return restored
}

/** The file of a store that nobody uses meanwhile. */
async function openLater(over: string, opened: AsyncDisposableStack): Promise<string> {
  const stats = statSync(over, { throwIfNoEntry: false })
  if (stats?.isFile()) return over
  requireStore(over)
  opened.defer(await lockFolder(over))
  return storeFile(over)
}

/** Takes back in a draft what was taken back since the backup, unless that may be forgotten. */
function takeBack(draft: string, later: string | undefined, options: Restoration): Restored {
  const { forget, callers = [] } = options
  using sqlite = connect(draft)
  const madeAt = sqlite.prepare(MADE).get()?.at
  const unknown = sqlite.prepare(MAY_REVIVE).get() ? [KEYS] : []
  const forgotten = later === undefined ? unknown : takeOver(sqlite, later)
  if (forgotten.length > 0 && !forget) throw forgets(madeAt, later, forgotten)
  const renewsKeys = forgotten.includes(KEYS)
  if (renewsKeys) sqlite.prepare(RENEW_KEYS).run(JSON.stringify(callers.map(indexable)))
  // Each revocation list is made anew, with a number by the clock.
  sqlite.exec('DELETE FROM sign_ins; UPDATE crls SET entries = NULL')
  checkIntegrity(sqlite)
  return { asOf: timeOf(madeAt), renewsKeys }
}

const timeOf = (madeAt: unknown) =>
  madeAt ? new Date(Number(madeAt)).toISOString() : 'an unknown time'

function forgets(madeAt: unknown, later: string | undefined, tables: readonly string[]) {
  const unread = `${later} cannot be read in ${tables.join(', ')}, so nothing`
  const which = later === undefined ? 'Nothing' : unread
  return new CertStoreError(
    'CERT_BACKUP_REFUSED',
    `The backup is of ${timeOf(madeAt)}. ${which} says what was taken back since then: revoked certificates, ` +
      'compromised keys, ended accounts and replaced keys of ACME clients may be valid again.',
  )
}

async function copyInto(draft: string, file: string): Promise<void> {
  // Opening a pipe would wait for somebody to write.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK
  await using source = await open(file, flags).catch((cause) => {
    throw new CertStoreError('CERT_BACKUP_REFUSED', `Cannot read ${file} (${cause.code}).`, {
      cause,
    })
  })
  if (!(await source.stat()).isFile())
    throw new CertStoreError('CERT_BACKUP_REFUSED', `${file} is not a file.`)
  try {
    await using target = await open(draft, 'w')
    await pipeline(source.createReadStream(), target.createWriteStream({ flush: true }))
  } catch (error) {
    throw fileError(draft, error)
  }
}

function verify(file: string, draft: string): void {
  try {
    using sqlite = connect(draft)
    checkIntegrity(sqlite)
    checkSchema(sqlite)
  } catch (cause) {
    const failure = asStoreError(cause)
    if (!(failure instanceof StoreError) || failure.code !== 'STORE_CORRUPT') throw failure
    throw new CertStoreError('CERT_BACKUP_REFUSED', `${file} is not a whole backup.`, { cause })
  }
}
