import { localTime } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { listAudit } from '../../src/cli/audit.ts'
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
      json: true,
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
    for await (const line of listAudit({ rows: readRows(folder, 0), json: true, ...query }))
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
  for await (const line of listAudit({ rows: readRows(folder, 0) })) text += line
  const [head = '', ...lines] = text.trimEnd().split('\n')
  t.match(head, /^TIME +EVENT +PERSON +HOST +CLIENT +FROM +PORTAL +DETAILS$/)
  const begins = ['TIME', 'EVENT', 'PERSON', 'HOST', 'CLIENT', 'FROM', 'PORTAL', 'DETAILS'].map(
    (title) => head.indexOf(title),
  )
  const cells = lines.map((line) =>
    begins.map((begin, i) => line.slice(begin, begins[i + 1]).trim()),
  )
  const [agent, address] = ['agent.example:8443', '192.0.2.7']
  const app = 'app.example.com'
  const time = (hours: number) => localTime(new Date(NOON + hours * HOUR).toISOString())
  t.strictSame(cells, [
    [time(-2), 'sign-in', 'ada@example.com (corp:ada)', app, '', address, 'main', ''],
    [time(-1), 'sign-in-failed', 'corp', app, '', address, 'main', 'FWA_PROVIDER_UNREACHABLE'],
    [time(0), 'sign-out', 'google:ada', app, '', address, 'other', ''],
    [time(0), 'program-passed', 'corp:ada', app, agent, address, 'main', 'delete_repo'],
    [time(0), 'program-passed', 'corp:ada', app, agent, address, 'main', 'read_file x12'],
    [
      time(0),
      'access-refused',
      'corp:ada',
      app,
      agent,
      address,
      'main',
      'delete_file FWA_TOOL_REFUSED x3',
    ],
    [time(0), 'program-passed', 'corp:ada', '*', agent, '*', 'main', '*'],
    [time(0), 'program-passed', 'corp:bob', app, 'spa', address, 'main', 'delete_file'],
    [time(0), 'program-passed', 'psk:ci', app, '', address, 'main', ''],
    [time(0), 'program-passed', '*', '*', '*', address, 'main', '*'],
    [time(0), 'call-allowed', 'corp:ada', app, agent, address, 'main', 'pay by Eve (corp:eve)'],
    [time(0), 'tool-called', 'corp:ada', app, agent, address, 'main', 'pay ran in 12 ms'],
    [time(1), 'sign-in', 'corp:\\u001b[2J\\u202e x', 'h'.repeat(40), '', address, 'main', ''],
  ])
})

t.test('a person of whom nothing is told is answered with the nearest', async (t) => {
  const folder = testFolder(t)
  await filesIn(folder).append(ROWS)
  const list = (query: Query) => Array.fromAsync(listAudit({ rows: readRows(folder, 0), ...query }))
  for (const [person, nearest] of [
    ['ada@exmaple.com', 'ada@example.com'],
    ['corp:adx', 'corp:ada'],
    ['Lovlace', 'lovelace'],
  ] as const) {
    const message = `the audit trail has nothing of that time about ${person}; did you mean ${nearest}?`
    await t.rejects(list({ person }), { message })
  }
  const message = 'the audit trail has nothing of that time about ada@example.com'
  await t.rejects(list({ person: 'ada@example.com', host: 'none' }), { message })
  t.match(await list({ host: 'none' }), [/^Nothing is listed: /])
})
