import t, { type Test } from 'tap'
import { labelled, listing, localTime } from '../src/output.ts'

interface Row {
  readonly name: string
  readonly issuer: string
  readonly failure?: string
  readonly ends?: string
}

const COLUMNS = {
  NAME: ({ name }: Row) => name,
  FAILURE: ({ failure }: Row) => failure,
  ISSUER: ({ issuer }: Row) => issuer,
  ENDS: ({ ends }: Row) => ends,
}

const print = async (rows: Iterable<Row>, json = false) =>
  (await Array.fromAsync(listing(rows, COLUMNS, { json }))).join('')

/** Sets the zone of this machine, until the test ends. */
function setZone(t: Test, zone: string): void {
  const { TZ } = process.env
  process.env.TZ = zone
  t.teardown(() => {
    if (TZ === undefined) delete process.env.TZ
    else process.env.TZ = TZ
  })
}

t.test('columns are as wide as they need to be, and empty ones are left out', async (t) => {
  const rows = [
    { name: 'a.test', issuer: 'ca' },
    { name: 'much-longer.test', issuer: 'acme\u001b[31m' },
  ]
  t.equal(
    await print(rows),
    `NAME              ISSUER
a.test            ca
much-longer.test  acme\\u001b[31m
`,
  )
  t.equal(
    labelled({ a: '1', none: undefined, 'long label': 'x\ny' }),
    'a           1\nlong label  x y\n',
  )
})

t.test('a table of many rows has every column, and is printed as it comes', async (t) => {
  let read = 0
  function* rows(): Generator<Row> {
    for (; read < 3_000; read += 1)
      yield { name: `${read}.test`, issuer: read < 2_000 ? 'ca' : 'much-longer', ends: '' }
  }
  const lines = listing(rows(), COLUMNS, {})
  const { value: begin = '' } = await lines.next()
  t.equal(read, 999, 'no more is read than is measured')
  t.match(begin, /^NAME {6}FAILURE {2}ISSUER {2}ENDS\n0\.test {13}ca\n/)
  const rest = await Array.fromAsync(lines)
  t.equal(rest.length, 2_000)
  t.match(rest[0], /^1000\.test {11}ca\n$/)
  t.match(rest.at(-1), /^2999\.test {11}much-longer\n$/)
})

t.test('JSON is an object in each line, and nothing for no rows', async (t) => {
  const rows = [
    { name: 'a.test', issuer: 'ca', ends: '2030-01-01T00:00:00Z' },
    { name: 'b\n.test', issuer: 'ca' },
  ]
  t.equal(await print(rows, true), rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  t.equal(await print([], true), '')
  t.match(await print([]), /^Nothing is listed: .*\n$/)
})

t.test('times are of this machine, with the offset', async (t) => {
  for (const [zone, time, text] of [
    ['UTC', '2030-01-31T10:03:00Z', '2030-01-31 10:03:00+00:00'],
    ['Europe/Berlin', '2030-01-31T10:03:00.999Z', '2030-01-31 11:03:00+01:00'],
    ['Europe/Berlin', '2030-07-31T22:03:59Z', '2030-08-01 00:03:59+02:00'],
    ['Asia/Kolkata', '2029-12-31T23:00:00Z', '2030-01-01 04:30:00+05:30'],
    ['America/St_Johns', '2030-01-01T00:00:00Z', '2029-12-31 20:30:00-03:30'],
    ['UTC', 'soon', 'soon'],
    ['UTC', '2030-99-99T10:03:00Z', '2030-99-99T10:03:00Z'],
  ] as const) {
    setZone(t, zone)
    t.equal(localTime(time), text, zone)
    t.equal(labelled({ ends: time }), `ends  ${text}\n`)
    t.match(await print([{ name: 'a', issuer: 'ca', ends: time }]), `a     ca      ${text}\n`)
  }
})
