import fc from 'fast-check'
import t from 'tap'
import { RowLimit } from '../../src/audit/row-limit.ts'
import type { AuditEvent, AuditRow } from '../../src/store/store.ts'

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
const at = (ms: number) => new Date(Date.parse(ROW.time) + ms).toISOString()

t.test('the same person, portal, host and code have one row per hour', async (t) => {
  const limit = new RowLimit(3_600_000)
  const table: [what: string, row: AuditRow, isWritten: boolean][] = [
    ['the first', ROW, true],
    ['the same', { ...ROW, requestId: 'a-1' }, false],
    ['from another address', { ...ROW, clientAddress: '192.0.2.8' }, false],
    ['at another host', { ...ROW, host: 'wiki.example.com' }, true],
    ['with another code', { ...ROW, code: 'FWA_SIGN_IN_RATE' }, true],
    ['at another portal', { ...ROW, portal: 'other' }, true],
    ['of another event', { ...ROW, event: 'sign-in-refused' }, true],
    ['of another person', { ...ROW, person: 'corp:bob' }, true],
    ['of nobody who is known', unknown, true],
    ['of such a one again', unknown, false],
    ['of such a one at another address', { ...unknown, clientAddress: '192.0.2.8' }, true],
    ['late in the hour', { ...ROW, time: at(HOUR - 1) }, false],
    ['in the next hour', { ...ROW, time: at(HOUR) }, true],
    ['after the clock was set back', ROW, true],
  ]
  for (const [what, row, isWritten] of table)
    t.strictSame(limit.take(row), isWritten ? row : undefined, what)
})

t.test('who invents hosts or addresses gets one row for all further ones', async (t) => {
  const limit = new RowLimit(3_600_000)
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
  const limit = new RowLimit(3_600_000)
  const rows = Array.from({ length: 12_000 }, (_, i) => limit.take({ ...ROW, person: `corp:${i}` }))
  t.equal(rows.filter((row) => row !== undefined).length, 10_001)
  const expected = { ...ROW, provider: undefined, person: '*', name: undefined, host: '*' }
  t.strictSame(rows[10_000], { ...expected, clientAddress: '*' })
})

t.test('no refusal is without a row that stands for it', async () => {
  const few = (name: string) => fc.constantFrom(...Array.from({ length: 200 }, (_, i) => name + i))
  const refusal = fc.record({
    event: fc.constantFrom(...EVENTS),
    person: fc.option(few('corp:'), { nil: undefined }),
    host: few('host'),
    clientAddress: few('address'),
  })
  const isFor = (row: AuditRow, { event, person, host, clientAddress }: AuditRow) =>
    row.event === event &&
    [person, '*'].includes(row.person) &&
    [host, '*'].includes(row.host) &&
    (person !== undefined || [clientAddress, '*'].includes(row.clientAddress))
  fc.assert(
    fc.property(fc.array(refusal, { maxLength: 400, size: 'max' }), (refusals) => {
      const limit = new RowLimit(3_600_000)
      const written: AuditRow[] = []
      for (const each of refusals) {
        const row = limit.take({ ...ROW, ...each })
        if (row) written.push(row)
        if (!written.some((one) => isFor(one, { ...ROW, ...each }))) return false
      }
      return true
    }),
    { numRuns: 30 },
  )
})
