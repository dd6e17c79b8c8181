import { openAuditLog } from '@gatehouse/cert-store'
import type { AuditRecord } from '@gatehouse/cert-store/port'
import { systemClock } from '@gatehouse/service-kit/clock'
import { durationOf } from '@gatehouse/service-kit/config'
import { printable, UsageError } from '@gatehouse/service-kit/program'
import type { CertServiceConfig } from '../config/schema.ts'

const PAGE = 500

/** Lists the rows of the audit trail of so long, newest first, as lines. The service may run. @throws UsageError; StoreError */
export async function* listAudit(
  storage: CertServiceConfig['storage'],
  { since = '24h', asJson }: { readonly since?: string; readonly asJson: boolean },
): AsyncGenerator<string> {
  const span = durationOf(since)
  if (span === undefined) throw new UsageError('--since is a duration such as 30m, 24h or 7d')
  const oldest = systemClock.now() - span
  await using log = await openAuditLog(storage)
  for (let before = Number.MAX_SAFE_INTEGER; ; ) {
    const rows = await log.listAudit({ before, limit: PAGE })
    for (const row of rows) if (row.at >= oldest) yield lineOf(row, asJson)
    const lastRow = rows.at(-1)
    if (!lastRow || lastRow.at < oldest) return
    before = lastRow.id
  }
}

function lineOf({ id: _, at: timestamp, ...row }: AuditRecord, asJson: boolean): string {
  const time = new Date(timestamp).toISOString()
  if (asJson) return `${JSON.stringify({ time, ...row })}\n`
  const { action, actor, names, remoteAddress = '-', count, detail = '', account } = row
  const more = account ? [`account ${account}`, detail] : [detail]
  const cells = [time, action, actor, names.join(','), remoteAddress, `${count}x`, ...more]
  return `${cells.map(printable).join('  ').trimEnd()}\n`
}
