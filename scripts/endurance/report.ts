import type { Entry, Journal, Kind } from './journal.ts'
import type { SessionVerdicts } from './oracle/sessions.ts'
import { isHeld, type Verdict } from './oracle/verdict.ts'
import type { Availability } from './watch.ts'
import type { World } from './world.ts'

/** Of the cases in which a promise was broken, so many are printed. */
const SHOWN = 5

/** One line while it runs. */
export function progressLine(
  elapsedMs: number,
  journal: Journal,
  parts: readonly string[],
): string {
  const at = new Date(elapsedMs).toISOString().slice(14, 19)
  const { entries } = journal
  const answered = entries.filter(({ status }) => status > 0).length
  return [
    `${at}  ${entries.length} requests, ${entries.length - answered} without answer`,
    ...parts,
  ].join(', ')
}

export function printReport(
  world: World,
  journal: Journal,
  counts: ReadonlyMap<string, number>,
  availability: readonly Availability[],
  { verdicts, longestMs }: SessionVerdicts,
): void {
  print('\n== What was done to it')
  for (const [what, times] of [...counts].toSorted()) row(what, `${times}`)
  for (const { name, program, clock } of [...world.cert, ...world.auth]) {
    if (program.crashes > 0) row(`ended by itself: ${name}`, `${program.crashes}`)
    if (clock !== undefined) row(`clock of ${name}`, clock)
  }
  print('\n== Requests                     count    p50    p99   statuses (0: no answer)')
  for (const [kind, entries] of Map.groupBy(journal.entries, ({ kind }) => kind))
    print(requestLine(kind, entries))
  print('\n== Longest time without service')
  for (const { what, longestMs: ms, answered } of availability)
    row(what, `${(ms / 1_000).toFixed(1)} s (${answered} answers)`)
  row('an ended session passed, replica connected', `${Math.round(longestMs.connected)} ms`)
  row('an ended session passed, replica cut off', `${Math.round(longestMs.cutOff)} ms`)
  print('\n== Promises')
  for (const verdict of verdicts) printVerdict(verdict)
}

function requestLine(kind: Kind, entries: readonly Entry[]): string {
  const times = entries
    .filter(({ status }) => status > 0 && status < 500)
    .map(({ sent, answered }) => answered - sent)
    .toSorted((a, b) => a - b)
  const share = (part: number) => `${Math.round(times[Math.floor(times.length * part)] ?? 0)}`
  const statuses = [...Map.groupBy(entries, ({ status }) => status)]
    .toSorted(([a], [b]) => a - b)
    .map(([status, ones]) => `${status}: ${ones.length}`)
  const cells = [kind.padEnd(28), `${entries.length}`.padStart(8)]
  const latencies = [share(0.5), share(0.99)].map((text) => text.padStart(6))
  return `${[...cells, ...latencies].join(' ')}   ${statuses.join(', ')}`
}

function printVerdict(verdict: Verdict): void {
  const { promise, held, excused, broken } = verdict
  const outcome = isHeld(verdict) ? 'ok' : broken.length > 0 ? 'BROKEN' : 'UNTRIED'
  const counts = `held ${held}, broken ${broken.length}${excused > 0 ? `, excused ${excused}` : ''}`
  print(`${outcome.padEnd(7)}  ${promise}: ${counts}`)
  for (const one of broken.slice(0, SHOWN)) print(`        ${one}`)
  if (broken.length > SHOWN) print(`        and ${broken.length - SHOWN} more`)
}

const row = (name: string, value: string) => print(`${name.padEnd(44)} ${value}`)
const print = (line: string) => console.log(line)
