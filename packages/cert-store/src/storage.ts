import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { attempt } from '@gatehouse/net'
import { Duration, FilePath, optional, Secret } from '@gatehouse/service-kit/config'
import {
  type ConfigRule,
  checkCertificateFile,
  checkFolder,
  checkText,
  type Fault,
  faultOf,
} from '@gatehouse/service-kit/rules'
import { SCHEMA_PATTERN } from '@gatehouse/store'
import { type Static, Type } from 'typebox'
import { APPLICATION_ID, hasMasterKey, storeFile } from './engines/sqlite.ts'
import { assertMasterKey, nextFile, refuseBeside } from './sealing/master-key.ts'

/** The options of a store: a folder or a database, and the master key. */
export const StorageSchema = Type.Object(
  {
    path: FilePath('Folder of the store, for one process at a time. Not used with `url`.', {
      default: 'data',
    }),
    ...optional({
      url: Secret(
        'PostgreSQL for any number of equal replicas, instead of a folder: ' +
          '`postgres://user:password@host:5432/database`. Separate several hosts with commas: ' +
          'the service uses the one that accepts writes. The connection uses verified TLS, ' +
          'unless the host is loopback or the URL has `?sslmode=disable`.',
      ),
      caFile: FilePath(
        'CA certificates of the database in PEM, if it has a private CA. Without `url`: for the database that `move` copies to.',
      ),
    }),
    schema: Type.String({
      pattern: SCHEMA_PATTERN,
      default: 'gatehouse_certs',
      description: 'Schema in the database, which is created at the first start.',
    }),
    masterKeyFile: FilePath(
      'Key that seals all others, outside of the data folder. Created at the first start, unless ' +
        '`url` is set: then it has to be the same on each replica. Not part of backups.',
      { default: 'master.key' },
    ),
    masterKey: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]{43}=$',
        description:
          'The key itself instead of the file, from the environment: 32 bytes in base64.',
      }),
    ),
    retention: Duration({
      default: '30d',
      from: '1h',
      description:
        'How long expired certificates and finished orders are kept; orders for two days at least.',
    }),
  },
  {
    removed: { cachePath: 'was removed: while the database is down, memory answers. Leave it out' },
  },
)

export type CertStorage = Static<typeof StorageSchema>

/** The rules for the files and folders that a start needs. They are only read, so the service may run. */
export const STORAGE_RULES: readonly ConfigRule<CertStorage>[] = [
  ({ url, path }) =>
    url === undefined ? [...checkFolder('/path', path), ...checkStore(path)] : [],
  ({ caFile }) => checkCertificateFile('/caFile', caFile),
  checkMasterKey,
]

/** Checks the first page of the file, which SQLite writes when the store is created. */
function checkStore(folder: string): Fault[] {
  const file = storeFile(folder)
  if (!existsSync(file)) return []
  return faultOf('/path', () => {
    if (!statSync(file).isFile()) throw new Error(`holds something that is not a store: ${file}`)
    const header = readStart(file)
    if (
      header.toString('latin1', 0, 15) !== 'SQLite format 3' ||
      header.readUInt32BE(68) !== APPLICATION_ID
    )
      throw new Error(`holds a file that is not a store of this service: ${file}`)
  })
}

function readStart(file: string): Buffer {
  const handle = openSync(file, 'r')
  try {
    const header = Buffer.alloc(100)
    readSync(handle, header)
    return header
  } finally {
    closeSync(handle)
  }
}

function checkMasterKey(storage: CertStorage): Fault[] {
  const path = '/masterKeyFile'
  const { path: folder, masterKeyFile: file, masterKey, url } = storage
  if (masterKey !== undefined) return []
  const beside = url === undefined ? faultOf(path, () => refuseBeside(file, folder)) : []
  if (beside.length > 0) return beside
  if (existsSync(file))
    return checkText(path, file, (text) =>
      assertMasterKey(file, { mode: statSync(file).mode, text }),
    )
  if (existsSync(nextFile(file))) return []
  if (url === undefined && !needsKey(folder)) return checkFolder(path, dirname(file))
  const message = `names no file, and the store needs its key: ${file}`
  return [{ path, message, absent: true }]
}

/** An unreadable store is reported by another rule. */
function needsKey(folder: string): boolean {
  return existsSync(storeFile(folder)) && (attempt(() => hasMasterKey(folder)) ?? false)
}

/** Tells whether nothing was ever stored here. What is in a database is not known before the start. */
export function isFirstStart({ path, url }: Pick<CertStorage, 'path' | 'url'>): boolean {
  return url === undefined && !existsSync(storeFile(path))
}
