import { manualClock } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { RowLimit } from '../../src/audit/row-limit.ts'
import type { AuditEvent, AuditRow } from '../../src/store/store.ts'

const MINUTE = 60_000
const HOUR = 3_600_000
const EVENTS: readonly AuditEvent[] = [
  ...(['sign-in', 'sign-in-refused', 'sign-in-failed', 'sign-out'] as const),
  ...(['session-ended', 'access-refused', 'program-passed'] as const),
]
const ROW: AuditRow = {
  time: '2030-01-01T00:00:00.000Z',
  event: 'access-refused',
  portal: 'main',
  provider: 'corp',
  person: 'corp:ada',
  name: 'Ada',
  host: 'app.example.com',
  clientAddress: '192.0.2.7',
  requestId: 'a-0',
  code: 'FWA_FORBIDDEN',
}
const unknown = { ...ROW, provider: undefined, person: undefined, name: undefined }
const CALL: AuditRow = {
  ...ROW,
  ...{ event: 'program-passed', code: undefined, client: 'https://agent.example/id.json' },
  tool: 'delete_repo',
}

/** A limit, its clock and what it has told of repeats. */
function limitOf(time: number, most: number) {
  const clock = manualClock(Date.parse(ROW.time))
  const repeats: AuditRow[] = []
  const limit = new RowLimit({ clock, time, most, repeated: (row) => repeats.push(row) })
  return { limit, clock, repeats }
}

t.test('the same person, portal, host, code and refusing part have one row per hour', async (t) => {
  const { limit, clock } = limitOf(HOUR, 100)
  const table: [what: string, row: AuditRow, isWritten: boolean, after?: number][] = [
    ['the first', ROW, true],
    ['the same', { ...ROW, requestId: 'a-1' }, false],
    ['from another address', { ...ROW, clientAddress: '192.0.2.8' }, false],
    ['at another host', { ...ROW, host: 'wiki.example.com' }, true],
    ['with another code', { ...ROW, code: 'FWA_RATE_LIMITED' }, true],
    ['at another portal', { ...ROW, portal: 'other' }, true],
    ['of another event', { ...ROW, event: 'sign-in-refused' }, true],
    ['of another person', { ...ROW, person: 'corp:bob' }, true],
    ['by another policy', { ...ROW, refusedBy: 'policy admin' }, true],
    ['by that one again', { ...ROW, refusedBy: 'policy admin', path: '/other' }, false],
    ['as a client', { ...ROW, client: 'c' }, true],
    ['as another one', { ...ROW, client: 'd' }, true],
    ['of a tool', { ...ROW, tool: 'read' }, true],
    ['of another one', { ...ROW, tool: 'write' }, true],
    ['of nobody who is known', unknown, true],
    ['of such a one again', unknown, false],
    ['of such a one at another address', { ...unknown, clientAddress: '192.0.2.8' }, true],
    ['late in the hour', ROW, false, HOUR - 1],
    ['in the next hour', ROW, true, 1],
    ['in that one again', ROW, false],
  ]
  for (const [what, row, isWritten, after = 0] of table) {
    await clock.advance(after)
    t.strictSame(limit.take(row), isWritten ? row : undefined, what)
  }
})

t.test('repeats are counted, and told when the time is over', async (t) => {
  const { limit, clock, repeats } = limitOf(MINUTE, 100)
  const [read, other] = [
    { ...CALL, tool: 'read' },
    { ...CALL, client: 'other' },
  ]
  const rows = [CALL, read, CALL, other, { ...CALL, requestId: 'a-9' }, read]
  t.strictSame(
    rows.map((row) => limit.take(row)),
    [CALL, read, undefined, other, undefined, undefined],
    'the first of each kind at once',
  )
  await clock.advance(MINUTE - 1)
  t.strictSame(repeats, [])
  await clock.advance(1)
  const time = new Date(Date.parse(ROW.time) + MINUTE).toISOString()
  const counted = [
    { ...CALL, time, requestId: 'a-9', count: 2 },
    { ...read, time, count: 1 },
  ]
  t.strictSame(repeats, counted)
  await clock.advance(10 * MINUTE)
  t.equal(repeats.length, 2, 'nothing more')

  t.strictSame(limit.take(CALL), CALL, 'a minute begins with its first call')
  limit.take(CALL)
  await clock.advance(MINUTE / 2)
  limit.end()
  t.match(repeats.slice(2), [{ tool: 'delete_repo', count: 1 }], 'also when it is ended early')
  limit.take(CALL)
  await clock.advance(MINUTE - 1)
  t.equal(limit.take(CALL), undefined, 'the timer of before ends no other minute')
  await clock.advance(1)
  t.equal(repeats.length, 4)
})

t.test('a call like one with a row is counted before it is described', async (t) => {
  const { limit, clock, repeats } = limitOf(MINUTE, 2)
  const [program, other] = [{}, {}]
  const { host, tool, method, clientAddress } = { ...CALL, method: 'GET' }
  const call = { host, tool, method, clientAddress, requestId: 'a-1' }
  const first = { ...CALL, method }
  t.notOk(limit.repeats(call, program), 'not before its first row')
  t.strictSame(limit.take(first, false, program), first)
  const table: [what: string, of: typeof call, by: object, isCounted: boolean][] = [
    ['the same', call, program, true],
    [
      'by another method, from another address',
      { ...call, method: 'POST', requestId: 'a-2' },
      program,
      true,
    ],
    ['at another host', { ...call, host: 'wiki.example.com' }, program, false],
    ['of another tool', { ...call, tool: 'read' }, program, false],
    ['of none', { ...call, tool: undefined as never }, program, false],
    [
      'of a host and a tool that read as these',
      { ...call, host: `${host} ${tool}`, tool: '' },
      program,
      false,
    ],
    ['of another program', call, other, false],
  ]
  for (const [what, of, by, isCounted] of table) t.equal(limit.repeats(of, by), isCounted, what)
  t.equal(limit.take({ ...first, requestId: 'a-3' }, false, other), undefined, 'with another token')
  t.ok(limit.repeats({ ...call, requestId: 'a-4', clientAddress: '192.0.2.9' }, other))

  t.ok(limit.take({ ...first, tool: 'read' }, false, program))
  t.match(limit.take({ ...first, tool: 'list' }, false, program), { tool: '*' })
  t.notOk(limit.repeats({ ...call, tool: 'list' }, program), 'what has no row of its own')

  await clock.advance(MINUTE)
  t.match(repeats, [{ tool, count: 4, method: '*', requestId: 'a-4', clientAddress: '192.0.2.9' }])
  t.equal(repeats.length, 1)
  t.notOk(limit.repeats(call, program), 'nor in the next minute')
})

t.test('who invents tools gets one row for all further ones, which counts them', async (t) => {
  const { limit, clock, repeats } = limitOf(MINUTE, 1_000)
  const tools = Array.from({ length: 1_500 }, (_, i) =>
    limit.take({ ...CALL, tool: `tool${i}`, client: `client${i}` }),
  )
  t.equal(tools.filter((row) => row !== undefined).length, 1_001)
  t.match(tools[1_000], { tool: '*', host: '*', person: 'corp:ada', client: '*' })
  t.match(limit.take({ ...CALL, person: 'corp:bob' }), { tool: CALL.tool }, 'others have rows')
  await clock.advance(MINUTE)
  t.match(repeats, [{ tool: '*', host: '*', person: 'corp:ada', count: 499 }])
  t.equal(repeats.length, 1)
})

t.test('who is refused invented tools hides none that is called', async (t) => {
  const { limit } = limitOf(MINUTE, 100)
  for (let i = 0; i < 150; i++)
    limit.take({ ...CALL, event: 'access-refused', code: 'FWA_TOOL_REFUSED', tool: `tool${i}` })
  t.strictSame(limit.take(CALL), CALL)
})

t.test('who invents hosts or addresses gets one row for all further ones', async (t) => {
  const { limit } = limitOf(HOUR, 100)
  const hosts = Array.from({ length: 150 }, (_, i) => limit.take({ ...ROW, host: `h${i}.test` }))
  t.equal(hosts.filter((row) => row !== undefined).length, 101)
  t.match(hosts[100], { host: '*', clientAddress: '*', person: 'corp:ada', name: 'Ada' })
  t.match(limit.take({ ...ROW, person: 'corp:bob' }), { host: ROW.host }, 'others have rows')

  const addresses = Array.from({ length: 150 }, (_, i) =>
    limit.take({ ...unknown, clientAddress: `2001:db8::${i}` }),
  )
  t.equal(addresses.filter((row) => row !== undefined).length, 101)
  t.match(addresses[100], { clientAddress: '*', person: undefined })
})

t.test('however many persons there are, the rows of an hour are limited', async (t) => {
  const { limit, clock, repeats } = limitOf(HOUR, 100)
  const rows = Array.from({ length: 12_000 }, (_, i) =>
    limit.take({ ...CALL, person: `corp:${i}` }),
  )
  t.equal(rows.filter((row) => row !== undefined).length, 10_001)
  const names = { name: undefined, username: undefined, email: undefined, groups: undefined }
  const asked = { method: undefined, path: undefined }
  const nobody = { provider: undefined, person: '*', ...names, ...asked, client: '*' }
  const expected = { ...CALL, ...nobody, host: '*', clientAddress: '*', tool: '*' }
  t.strictSame(rows[10_000], expected)
  await clock.advance(HOUR)
  t.strictSame(repeats, [{ ...expected, time: repeats[0]?.time, count: 1_999 }])
})

t.test('no event is without a row that stands for it, and each is counted once', async () => {
  const few = (name: string) => fc.constantFrom(...Array.from({ length: 200 }, (_, i) => name + i))
  const event = fc.record({
    event: fc.constantFrom(...EVENTS),
    person: fc.option(few('corp:'), { nil: undefined }),
    host: few('host'),
    clientAddress: few('address'),
    tool: fc.option(few('tool'), { nil: undefined }),
    client: fc.constantFrom(undefined, 'c1', 'c2'),
    passes: fc.constantFrom(0, 0, 0, 0, MINUTE / 10),
  })
  const isFor = (row: AuditRow, { event, person, host, clientAddress, tool, client }: AuditRow) =>
    row.event === event &&
    [tool, '*'].includes(row.tool) &&
    [client, '*'].includes(row.client) &&
    [person, '*'].includes(row.person) &&
    [host, '*'].includes(row.host) &&
    (person !== undefined || [clientAddress, '*'].includes(row.clientAddress))
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { maxLength: 400, size: 'max' }),
      fc.nat(100),
      async (events, most) => {
        const { limit, clock, repeats } = limitOf(MINUTE, most)
        const written: AuditRow[] = []
        for (const { passes, ...each } of events) {
          if (passes > 0) await clock.advance(passes)
          const row = limit.take({ ...ROW, ...each })
          if (row) written.push(row)
          if (!written.some((one) => isFor(one, { ...ROW, ...each }))) return false
        }
        limit.end()
        const counted = [...written, ...repeats].reduce((sum, { count = 1 }) => sum + count, 0)
        return counted === events.length
      },
    ),
    { numRuns: 30 },
  )
})
