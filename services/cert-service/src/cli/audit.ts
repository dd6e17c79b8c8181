import { openAuditLog } from '@gatehouse/cert-store'
import type { AuditRecord } from '@gatehouse/cert-store/port'
import { systemClock } from '@gatehouse/service-kit/clock'
import { listing, readTime, type TableColumns } from '@gatehouse/service-kit/program'
import type { CertServiceConfig } from '../config/schema.ts'

const PAGE = 500

/** Lists the rows of the audit trail of a time, the newest last, as lines. The service may run. @throws UsageError; StoreError */
export async function* listAudit(
  storage: CertServiceConfig['storage'],
  { since = '24h', until, json }: { since?: string; until?: string; json?: boolean },
): AsyncGenerator<string> {
  const now = systemClock.now()
  const start = readTime('--since', since, now)
  const end = until === undefined ? Number.MAX_SAFE_INTEGER : readTime('--until', until, now)
  const rows: AuditRecord[] = []
  await using log = await openAuditLog(storage)
  for (let before = Number.MAX_SAFE_INTEGER; ; ) {
    const page = await log.listAudit({ before, limit: PAGE })
    rows.push(...page.filter(({ at: time }) => time >= start && time < end))
    const lastRow = page.at(-1)
    if (!lastRow || lastRow.at < start) break
    before = lastRow.id
  }
  yield* listing(rows.toReversed().map(rowOf), COLUMNS, { json })
}

const rowOf = ({ id: _, at: time, ...row }: AuditRecord) => ({
  time: new Date(time).toISOString(),
  ...row,
})

const COLUMNS: TableColumns<ReturnType<typeof rowOf>> = {
  TIME: ({ time }) => time,
  EVENT: ({ action }) => action,
  CALLER: ({ actor }) => actor,
  NAMES: ({ names }) => names.join(','),
  FROM: ({ remoteAddress }) => remoteAddress,
  COUNT: ({ count }) => `${count}x`,
  ACCOUNT: ({ account }) => account,
  DETAILS: ({ detail }) => detail,
}
