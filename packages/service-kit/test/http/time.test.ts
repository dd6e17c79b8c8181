import { execFileSync } from 'node:child_process'
import { html } from '@remix-run/html-template'
import t from 'tap'
import { pageOf, styleOf } from '../../src/http/page.ts'
import {
  distanceFrom,
  TIME_SCRIPT,
  writeClock,
  writeDay,
  writeDistance,
  writeTime,
} from '../../src/http/time.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const TIME = Date.UTC(2026, 2, 29, 23, 30, 59)

t.test('a distance is in a unit of which there are at least two', async (t) => {
  const cases: [number, string][] = [
    [0, 'this minute'],
    [119 * 60_000, 'in 119 minutes'],
    [2 * HOUR, 'in 2 hours'],
    [47 * HOUR, 'in 47 hours'],
    [48 * HOUR, 'in 2 days'],
    [-400 * DAY, '400 days ago'],
  ]
  for (const [ms, said] of cases) t.equal(distanceFrom('en', TIME + ms, TIME), said)
})

t.test('without a script, times say that they are in UTC', async (t) => {
  const textOf = (markup: unknown) => String(markup).replace(/<[^>]*>/g, '')
  t.equal(textOf(writeTime('en', TIME)), '29 Mar 2026, 23:30 UTC')
  t.equal(textOf(writeTime('de', TIME)), '29.03.2026, 23:30 UTC')
  t.equal(textOf(writeClock('en', TIME)), '23:30 UTC')
  t.equal(textOf(writeDay('fr', TIME)), '29 mars')
  t.match(String(writeDistance('es', TIME, TIME - DAY)), 'title="29 mar 2026, 23:30 UTC"')
  t.match(String(writeDay('en', TIME)), 'datetime="2026-03-29T23:30:59Z"')
})

/** Runs the script of a page as a browser in a zone does. */
function runIn(zone: string, lang: string, times: { dateTime: string; form?: string }[]) {
  const elements = times.map(({ dateTime, form }) => {
    return { dateTime, dataset: form ? { form } : {}, textContent: 'said', title: '' }
  })
  const program = `
    const elements = ${JSON.stringify(elements)}
    const document = { documentElement: { lang: '${lang}' }, querySelectorAll: () => elements }
    ${TIME_SCRIPT}
    console.log(JSON.stringify(elements.map(({ textContent, title }) => [textContent, title])))`
  const output = execFileSync(process.execPath, ['-e', program], { env: { TZ: zone } })
  return JSON.parse(String(output)) as [text: string, title: string][]
}

t.test('the script writes times in the zone of the reader, and keeps what was said', async (t) => {
  const dateTime = '2026-03-29T23:30:59Z'
  const forms = [{ form: 'minute' }, { form: 'clock' }, { form: 'day' }, {}]
  const times = forms.map((form) => ({ dateTime, ...form }))
  const cases: [zone: string, lang: string, ...said: [string, string, string]][] = [
    ['Europe/Berlin', 'en', '30 Mar 2026, 01:30', '01:30', '30 Mar'],
    ['America/Los_Angeles', 'de', '29.03.2026, 16:30', '16:30', '29. März'],
    ['Asia/Kolkata', 'fr', '30 mars 2026, 05:00', '05:00', '30 mars'],
    ['UTC', 'es', '29 mar 2026, 23:30', '23:30', '29 mar'],
  ]
  for (const [zone, lang, minute, clock, day] of cases)
    t.strictSame(
      runIn(zone, lang, times),
      [
        [minute, 'said'],
        [clock, 'said'],
        [day, 'said'],
        ['said', minute],
      ],
      zone,
    )
})

t.test('a page has the script if it tells a time, not if somebody is called so', async (t) => {
  const style = styleOf('')
  const pageWith = (body: ReturnType<typeof html>, script?: string) =>
    pageOf({ title: 'Times', accent: '#000', body, script }, style)
  for (const [page, script] of [
    [pageWith(html`<p>${writeTime('en', TIME)}</p>`), TIME_SCRIPT],
    [pageWith(html`<p>${writeTime('en', TIME)}</p>`, '\n;1'), `${TIME_SCRIPT}\n;1`],
    [pageWith(html`<p>${'<time x>'}</p>`), undefined],
    [pageWith(html`<p></p>`, ';1'), ';1'],
  ] as const) {
    t.equal(/<script>(.*)<\/script>/s.exec(page.html)?.[1], script)
    t.equal(page.policy.includes('script-src'), script !== undefined)
  }
})
