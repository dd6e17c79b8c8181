import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { dayFilesIn, readRows } from '../../src/store/sqlite/day-files.ts'
import type { StoredAuditRow } from '../../src/store/store.ts'

const DAY = 86_400_000
const NOON = Date.UTC(2030, 0, 10, 12)

const rowAt = (time: number, ran = 0, requestId = 'a'): StoredAuditRow => ({
  time: new Date(time).toISOString(),
  ...{ event: 'sign-in', portal: 'main', person: 'corp:ada', requestId, ran },
})

const filesIn = (folder: string, running = 0) => dayFilesIn(folder, () => ({ now: NOON, running }))

async function all(folder: string, since = 0): Promise<StoredAuditRow[]> {
  const rows: StoredAuditRow[] = []
  for await (const row of readRows(folder, since)) rows.push(row)
  return rows
}

t.test('rows are in the file of their day, and are read in order', async (t) => {
  const folder = `${testFolder(t)}/audit`
  t.strictSame(await all(folder), [], 'no folder yet')
  const rows = [rowAt(NOON), rowAt(NOON + DAY / 2 - 1), rowAt(NOON + DAY / 2), rowAt(NOON + DAY)]
  await filesIn(folder).append(rows.slice(0, 3))
  await filesIn(folder).append(rows.slice(3))
  t.strictSame(readdirSync(folder).toSorted(), ['2030-01-10.jsonl', '2030-01-11.jsonl'])
  t.strictSame(await all(folder), rows)
  t.strictSame(await all(folder, NOON + 1), rows.slice(1))
  t.strictSame(await all(folder, NOON + DAY + 1), [])
})

t.test('several writers share a folder', async (t) => {
  const folder = testFolder(t)
  const ids = Array.from({ length: 200 }, (_, i) => String(i))
  await Promise.all(ids.map((id) => filesIn(folder).append([rowAt(NOON, 0, id)])))
  const read = (await all(folder)).map(({ requestId }) => requestId)
  t.strictSame(read.toSorted(), ids.toSorted())
})

t.test('a text with what ends lines elsewhere hides no row', async (t) => {
  const folder = testFolder(t)
  const tool = 'a\u2028b\u2029c\u0085d\re\nf\0'
  const row: StoredAuditRow = { ...rowAt(NOON), tool, name: 'x'.repeat(100_000) }
  await filesIn(folder).append([row, rowAt(NOON)])
  t.strictSame(await all(folder), [row, rowAt(NOON)])
})

t.test('the last row counts without the end of its line, too', async (t) => {
  const folder = testFolder(t, { '2030-01-10.jsonl': JSON.stringify(rowAt(NOON)) })
  t.strictSame(await all(folder), [rowAt(NOON)])
})

t.test('lines that are no rows are left out', async (t) => {
  const folder = testFolder(t, { 'notes.txt': 'x', '2030-01-10.jsonl.bak': 'x' })
  const files = filesIn(folder)
  await files.append([rowAt(NOON, 0, 'before')])
  const half = JSON.stringify(rowAt(NOON)).slice(0, 40)
  appendFileSync(`${folder}/2030-01-10.jsonl`, `\n{}\nnull\n5\n${half}`)
  mkdirSync(`${folder}/2030-01-11.jsonl`)
  await t.rejects(files.append([rowAt(NOON + DAY)]), { code: 'EISDIR' })
  rmdirSync(`${folder}/2030-01-11.jsonl`)
  await files.append([rowAt(NOON, 0, 'after')])
  t.match(await all(folder), [{ requestId: 'before' }, { requestId: 'after' }])
  t.match(readFileSync(`${folder}/2030-01-10.jsonl`, 'utf8'), half)
})

t.test('a day is removed by the clock and by the time that the service ran', async (t) => {
  const retention = 5 * DAY
  const table: [what: string, days: number, ran: number, isKept: boolean][] = [
    ['today', 0, 9, true],
    ['the last day of the retention', -5, 9, true],
    ['the day before it', -6, 9, false],
    ['that, but the service has not run for so long', -6, 4, true],
    ['tomorrow, by the clock of another instance', 1, 9, true],
    ['a day that was written while the clock was ahead', 400, 9, false],
    ['that, but lately', 400, 1, true],
    ['a day that was written while the clock was behind', -9_000, 9, false],
    ['that, but lately', -9_000, 1, true],
  ]
  for (const [i, [what, days, ran, isKept]] of table.entries()) {
    const folder = testFolder(t)
    await filesIn(folder).append([rowAt(NOON + days * DAY, 20 * DAY)])
    await filesIn(folder, (20 + ran) * DAY).prune(retention)
    t.equal((await all(folder)).length, isKept ? 1 : 0, `${i} ${what}`)
  }
})

t.test('a day whose first line cannot be read counts as written at the first start', async (t) => {
  const folder = testFolder(t)
  writeFileSync(`${folder}/2029-01-01.jsonl`, 'x'.repeat(20_000))
  await filesIn(folder, 4 * DAY).prune(5 * DAY)
  t.equal(readdirSync(folder).length, 1)
  await filesIn(folder, 5 * DAY).prune(5 * DAY)
  t.equal(readdirSync(folder).length, 0)
})
