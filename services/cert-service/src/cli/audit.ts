import { DatabaseSync } from 'node:sqlite'
import {
  durationOf,
  printable,
  requireNamedFile,
  systemClock,
  UsageError,
} from '@gatehouse/service-kit'
import { openPostgres, parsePostgresUrl, requireMigratedSqlite, Sqlite } from '@gatehouse/store'
import type { CertServiceConfig } from '../config/schema.ts'
import { AuditLog } from '../store/audit.ts'
import { reported } from '../store/failures.ts'
import { requireStore, storeFile } from '../store/sqlite.ts'
import type { AuditRecord, Store } from '../store/store.ts'
import { MIGRATIONS } from '../store/tables.ts'

type Storage = CertServiceConfig['storage']

const PAGE = 500

/**
 * The rows of the audit trail of so long, newest first, as lines. The service may run.
 * @throws UsageError; CertError CERT_STORE_MISSING; StoreError
 */
export async function* listAudit(
  storage: Storage,
  { since = '24h', asJson }: { readonly since?: string; readonly asJson: boolean },
): AsyncGenerator<string> {
  const span = durationOf(since)
  if (span === undefined) throw new UsageError('--since is a duration such as 30m, 24h or 7d')
  const oldest = systemClock.now() - span
  await using opened = new AsyncDisposableStack()
  const log = await openLog(storage, opened)
  for (let before = Number.MAX_SAFE_INTEGER; ; ) {
    const rows = await log.listAudit({ before, limit: PAGE })
    for (const row of rows) if (row.at >= oldest) yield lineOf(row, asJson)
    const last = rows.at(-1)
    if (!last || last.at < oldest) return
    before = last.id
  }
}

async function openLog(
  { url, path, caFile, schema }: Storage,
  opened: AsyncDisposableStack,
): Promise<Pick<Store, 'listAudit'>> {
  if (url === undefined) {
    requireStore(path)
    const sqlite = opened.use(new DatabaseSync(storeFile(path), { readOnly: true }))
    requireMigratedSqlite(sqlite, MIGRATIONS)
    return new AuditLog(new Sqlite(sqlite, { reported }))
  }
  const postgres = await openPostgres({
    ...{ url: parsePostgresUrl(url), schema, existing: true, name: 'gatehouse-certs audit' },
    ...(caFile !== undefined && { ca: requireNamedFile('storage.caFile', caFile) }),
    ...{ migrations: MIGRATIONS, log: { info() {}, warn() {} }, reported },
  })
  return new AuditLog(opened.use(postgres))
}

function lineOf({ id: _, at, ...row }: AuditRecord, asJson: boolean): string {
  const time = new Date(at).toISOString()
  if (asJson) return `${JSON.stringify({ time, ...row })}\n`
  const { action, actor, names, remoteAddress = '-', count, detail = '' } = row
  const cells = [time, action, actor, names.join(','), remoteAddress, `${count}x`, detail]
  return `${cells.map(printable).join('  ').trimEnd()}\n`
}
