import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { listAudit, readSince } from '../../src/cli/audit.ts'
import { DayFiles, readRows } from '../../src/store/sqlite/day-files.ts'
import type { StoredAuditRow } from '../../src/store/store.ts'

const NOON = Date.UTC(2030, 0, 10, 12)
const HOUR = 3_600_000

const rowAt = (hours: number, row: Partial<StoredAuditRow>): StoredAuditRow => ({
  time: new Date(NOON + hours * HOUR).toISOString(),
  ...{ event: 'sign-in', portal: 'main', provider: 'corp', requestId: 'a-0', ran: 0 },
  ...{ host: 'app.example.com', clientAddress: '192.0.2.7' },
  ...row,
})
const ROWS = [
  rowAt(-30, { person: 'corp:ada' }),
  rowAt(-2, { person: 'corp:ada', name: 'Ada' }),
  rowAt(-1, { event: 'sign-in-failed', code: 'FWA_PROVIDER_UNREACHABLE' }),
  rowAt(0, { person: 'google:ada', provider: 'google', portal: 'other', event: 'sign-out' }),
]
const filesIn = (folder: string) => new DayFiles(folder, () => ({ now: NOON, running: 0 }))
type Query = Partial<Parameters<typeof listAudit>[0]> & { since?: number }

t.test('the rows that a query selects', async (t) => {
  const folder = testFolder(t)
  await filesIn(folder).append(ROWS)
  const list = async ({ since = 0, ...query }: Query) => {
    const lines: StoredAuditRow[] = []
    for await (const line of listAudit({ rows: readRows(folder, since), asJson: true, ...query }))
      lines.push(JSON.parse(line))
    return lines
  }
  const [old, ada, failed, other] = ROWS
  const table: [query: Query, rows: unknown[]][] = [
    [{}, ROWS],
    [{ since: NOON - 24 * HOUR }, [ada, failed, other]],
    [{ portal: 'main' }, [old, ada, failed]],
    [{ portal: 'none' }, []],
    [{ person: 'ada' }, [old, ada, other]],
    [{ person: 'corp:ada' }, [old, ada]],
    [{ person: 'corp:ada', portal: 'other' }, []],
    [{ since: NOON + 1 }, []],
  ]
  for (const [query, rows] of table) t.strictSame(await list(query), rows, JSON.stringify(query))
})

t.test('a table for people', async (t) => {
  const folder = testFolder(t)
  const odd = rowAt(1, { person: 'corp:\u001b[2J\u202e\nx', host: 'h'.repeat(40) })
  await filesIn(folder).append([...ROWS.slice(1), odd])
  let text = ''
  for await (const line of listAudit({ rows: readRows(folder, 0), asJson: false })) text += line
  t.equal(
    text,
    `\
TIME                  EVENT            PORTAL      PERSON                        HOST                          CLIENT           CODE
2030-01-10T10:00:00Z  sign-in          main        corp:ada                      app.example.com               192.0.2.7        -
2030-01-10T11:00:00Z  sign-in-failed   main        corp                          app.example.com               192.0.2.7        FWA_PROVIDER_UNREACHABLE
2030-01-10T12:00:00Z  sign-out         other       google:ada                    app.example.com               192.0.2.7        -
2030-01-10T13:00:00Z  sign-in          main        corp:\ufffd[2J\ufffd\ufffdx                  ${'h'.repeat(40)}  192.0.2.7        -
`,
  )
})

t.test('JSON that no terminal obeys', async (t) => {
  const folder = testFolder(t)
  const name = 'a\u001b[2J\u009b2J\u202e\u{e0001}\nx'
  await filesIn(folder).append([rowAt(0, { name })])
  for await (const line of listAudit({ rows: readRows(folder, 0), asJson: true })) {
    t.match(line, /^\P{C}+\n$/u)
    t.equal(JSON.parse(line).name, name)
  }
})

t.test('how far to look back', async (t) => {
  t.equal(readSince('24h', NOON), NOON - 24 * HOUR)
  t.equal(readSince('7d', NOON), NOON - 168 * HOUR)
  for (const text of ['', '24', 'yesterday', '-1h', '1w'])
    t.throws(() => readSince(text, NOON), { message: /^--since must be a duration/ }, text)
})
