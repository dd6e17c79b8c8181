import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { listAudit, readTime } from '../../src/cli/audit.ts'
import { dayFilesIn, readRows } from '../../src/store/sqlite/day-files.ts'
import type { StoredAuditRow } from '../../src/store/store.ts'

const NOON = Date.UTC(2030, 0, 10, 12)
const HOUR = 3_600_000

const rowAt = (hours: number, row: Partial<StoredAuditRow>): StoredAuditRow => ({
  time: new Date(NOON + hours * HOUR).toISOString(),
  ...{ event: 'sign-in', portal: 'main', provider: 'corp', requestId: 'a-0', ran: 0 },
  ...{ host: 'app.example.com', clientAddress: '192.0.2.7' },
  ...row,
})
const CLIENT = 'https://agent.example:8443/id.json'
const callAt = (hours: number, row: Partial<StoredAuditRow>) =>
  rowAt(hours, { event: 'program-passed', person: 'corp:ada', client: CLIENT, ...row })
const CALLS = [
  callAt(0, { tool: 'delete_repo' }),
  callAt(0, { tool: 'read_file', count: 12 }),
  callAt(0, { tool: 'delete_file', event: 'access-refused', code: 'FWA_TOOL_REFUSED', count: 3 }),
  callAt(0, { tool: '*', host: '*', clientAddress: '*' }),
  callAt(0, { tool: 'delete_file', person: 'corp:bob', client: 'spa' }),
  callAt(0, { person: 'psk:ci', client: undefined }),
  callAt(0, { tool: '*', host: '*', person: '*', client: '*' }),
]
const NAMES = { name: 'Ada Lovelace', username: 'lovelace', email: 'ada@example.com' }
const ROWS = [
  rowAt(-30, { person: 'corp:ada' }),
  rowAt(-2, { person: 'corp:ada', ...NAMES }),
  rowAt(-1, { requestId: 'a-1', event: 'sign-in-failed', code: 'FWA_PROVIDER_UNREACHABLE' }),
  rowAt(0, { person: 'google:ada', provider: 'google', portal: 'other', event: 'sign-out' }),
]
const filesIn = (folder: string) => dayFilesIn(folder, () => ({ now: NOON, running: 0 }))
type Query = Partial<Parameters<typeof listAudit>[0]> & { since?: number; until?: number }

t.test('the rows that a query selects', async (t) => {
  const folder = testFolder(t)
  await filesIn(folder).append(ROWS)
  const list = async ({ since = 0, until, ...query }: Query) => {
    const lines: StoredAuditRow[] = []
    for await (const line of listAudit({
      rows: readRows(folder, since, until),
      as: 'json',
      ...query,
    }))
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
    [{ person: 'Ada LOVELACE' }, [ada]],
    [{ person: 'Ada@example.com' }, [ada]],
    [{ person: 'lovelace' }, [ada]],
    [{ event: 'sign-out' }, [other]],
    [{ host: 'app.example.com', event: 'sign-in' }, [old, ada]],
    [{ host: 'example.com' }, []],
    [{ person: 'ada', event: 'sign-out' }, [other]],
    [{ request: 'a-1' }, [failed]],
    [{ until: NOON - HOUR }, [old, ada]],
    [{ since: NOON + 1 }, []],
  ]
  for (const [query, rows] of table) t.strictSame(await list(query), rows, JSON.stringify(query))
  const none = { message: 'the audit trail has nothing of that time about bob@example.com' }
  await t.rejects(list({ person: 'bob@example.com' }), none)
  await t.rejects(list({ person: 'corp:ada', since: NOON }), { message: /about corp:ada$/ })
  await t.rejects(list({ request: 'a-2' }), { message: /about a-2$/ })
})

t.test('the calls that a query selects', async (t) => {
  const folder = testFolder(t)
  await filesIn(folder).append([...ROWS, ...CALLS])
  const [deleted, read, refused, several, ofBob, ofKey, ofAll] = CALLS
  const table: [query: Query, rows: unknown[]][] = [
    [{ tool: 'delete*' }, [deleted, refused, several, ofBob, ofAll]],
    [{ tool: 'delete*', person: 'ada' }, [deleted, refused, several, ofAll]],
    [{ tool: 'delete_repo' }, [deleted, several, ofAll]],
    [{ tool: '*' }, [deleted, read, refused, several, ofBob, ofAll]],
    [{ tool: '*file' }, [read, refused, several, ofBob, ofAll]],
    [{ client: CLIENT }, [deleted, read, refused, several, ofAll]],
    [{ client: 'agent.example:8443' }, [deleted, read, refused, several, ofAll]],
    [{ client: 'agent.example' }, [deleted, read, refused, several, ofAll]],
    [{ client: 'other.example' }, [ofAll]],
    [{ client: 'spa', tool: 'delete*' }, [ofBob, ofAll]],
    [{ person: 'psk:ci' }, [ofKey, ofAll]],
  ]
  for (const [query, rows] of table) {
    const lines: unknown[] = []
    for await (const line of listAudit({ rows: readRows(folder, 0), as: 'json', ...query }))
      lines.push(JSON.parse(line))
    t.strictSame(lines, JSON.parse(JSON.stringify(rows)), JSON.stringify(query))
  }
})

t.test('a table for people', async (t) => {
  const folder = testFolder(t)
  const odd = rowAt(1, { person: 'corp:\u001b[2J\u202e\nx', host: 'h'.repeat(40) })
  const calls = [
    callAt(0, { event: 'call-allowed', tool: 'pay', actor: 'corp:eve', actorName: 'Eve' }),
    callAt(0, { event: 'tool-called', tool: 'pay', outcome: 'ran', duration: 12 }),
  ]
  await filesIn(folder).append([...ROWS.slice(1), ...CALLS, ...calls, odd])
  let text = ''
  for await (const line of listAudit({ rows: readRows(folder, 0), as: 'table' })) text += line
  t.equal(
    text,
    `\
TIME                  EVENT            PORTAL  PERSON                            HOST                CLIENT           TOOL, CODE, REASON
2030-01-10T10:00:00Z  sign-in          main    ada@example.com (corp:ada)        app.example.com     192.0.2.7        -
2030-01-10T11:00:00Z  sign-in-failed   main    corp                              app.example.com     192.0.2.7        FWA_PROVIDER_UNREACHABLE
2030-01-10T12:00:00Z  sign-out         other   google:ada                        app.example.com     192.0.2.7        -
2030-01-10T12:00:00Z  program-passed   main    corp:ada                          app.example.com     agent.example:8443  delete_repo
2030-01-10T12:00:00Z  program-passed   main    corp:ada                          app.example.com     agent.example:8443  read_file x12
2030-01-10T12:00:00Z  access-refused   main    corp:ada                          app.example.com     agent.example:8443  delete_file FWA_TOOL_REFUSED x3
2030-01-10T12:00:00Z  program-passed   main    corp:ada                          *                   agent.example:8443  *
2030-01-10T12:00:00Z  program-passed   main    corp:bob                          app.example.com     spa              delete_file
2030-01-10T12:00:00Z  program-passed   main    psk:ci                            app.example.com     192.0.2.7        -
2030-01-10T12:00:00Z  program-passed   main    *                                 *                   *                *
2030-01-10T12:00:00Z  call-allowed     main    corp:ada                          app.example.com     agent.example:8443  pay by Eve (corp:eve)
2030-01-10T12:00:00Z  tool-called      main    corp:ada                          app.example.com     agent.example:8443  pay ran in 12 ms
2030-01-10T13:00:00Z  sign-in          main    corp:\\u001b[2J\\u202e x            ${'h'.repeat(40)}  192.0.2.7        -
`,
  )
})

t.test('times, of this machine if they name no zone', async (t) => {
  const local = (hours: number, minutes: number, date = 10) =>
    new Date(2030, 0, date, hours, minutes).getTime()
  const noon = local(12, 0)
  for (const [text, time] of [
    ['24h', noon - 24 * HOUR],
    ['7d', noon - 168 * HOUR],
    ['10:03', local(10, 3)],
    ['12:03', local(12, 3, 9)],
    ['2030-01-10', local(0, 0)],
    ['2030-01-09T10:03', local(10, 3, 9)],
    ['2030-01-09T10:03:00Z', Date.UTC(2030, 0, 9, 10, 3)],
  ] as const)
    t.equal(readTime('--at', text, noon), time, text)
  for (const text of ['', '24', 'yesterday', '-1h', '1w', '24:00', '10:60', '2030-13-01', '10:3'])
    t.throws(() => readTime('--at', text, noon), { message: /^--at must be a time/ }, text)
})
