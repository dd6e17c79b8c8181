import { html, type SafeHtml } from '@remix-run/html-template'
import type { Moments } from './state.ts'
import { texts } from './texts.ts'
import { shortDay } from './words.ts'

const DAY = 86_400_000
/** How far the time line goes at most: beyond it, bars of short certificates would be dots. */
const MAX_FUTURE = 90 * DAY
/** Days between the dates on the axis. */
const STEPS = [1, 2, 3, 5, 7, 14, 28]
const MAX_TICKS = 5
/** Percent of the axis that a date needs for itself. */
const ROOM = 9

/** The stretch of time that every bar of a page is drawn on. */
export interface TimeLine {
  readonly start: number
  readonly end: number
  readonly now: number
}

/** A time line that holds the certificates as far as it may reach; at most half of it is past. */
export function timeLineOf(certificates: readonly Moments[], now: number): TimeLine {
  const [starts, ends] = [
    certificates.map(({ notBefore }) => notBefore),
    certificates.map(({ notAfter }) => notAfter),
  ]
  const end = Math.min(now + MAX_FUTURE, Math.max(now + DAY, ...ends))
  const start = Math.max(now - (end - now), Math.min(now - DAY, ...starts))
  const margin = (end - start) / 30
  return { start: start - margin, end: end + margin, now }
}

/** The validity of a certificate. Its words stand beside it, so that only eyes need the picture. */
export function bar({ notBefore, notAfter, renewAt }: Moments, line: TimeLine): SafeHtml {
  const [from, now, to] = [notBefore, line.now, notAfter].map((at) => place(at, line)) as Three
  const lived = Math.min(Math.max(now, from), to)
  const renewal =
    renewAt !== null && renewAt > line.start && renewAt < line.end
      ? html`<circle cx="${percent(place(renewAt, line))}" cy="50%" r="5"/>`
      : ''
  return html`<svg class="line" aria-hidden="true"><rect class="past" x="${percent(from)}" width="${percent(to - from)}" y="35%" height="30%" rx="4"/><rect class="left" x="${percent(lived)}" width="${percent(to - lived)}" y="35%" height="30%" rx="4"/><line x1="${percent(now)}" x2="${percent(now)}" y1="0" y2="100%"/>${renewal}</svg>`
}

type Three = [number, number, number]

/** The dates above the bars. */
export function axis(line: TimeLine): SafeHtml {
  const now = place(line.now, line)
  const dates = ticks(line).map(
    (at) => html`<text x="${percent(place(at, line))}" y="80%">${shortDay(at)}</text>`,
  )
  return html`<svg class="axis" aria-hidden="true">${dates}<text class="now" x="${percent(now)}" y="80%">${texts.legend.now}</text></svg>`
}

/** Midnights at even distances that leave room for themselves, for `now` and for the edges. */
function ticks(line: TimeLine): number[] {
  const { start, end, now } = line
  const days = (end - start) / DAY
  const step = (STEPS.find((each) => days / each <= MAX_TICKS) ?? Math.ceil(days / MAX_TICKS)) * DAY
  const midnight = now - (now % DAY)
  const first = midnight - Math.floor((midnight - start) / step) * step
  const count = Math.floor((end - first) / step) + 1
  const fits = (at: number) => {
    const x = place(at, line)
    return x >= ROOM / 2 && x <= 100 - ROOM / 2 && Math.abs(x - place(now, line)) >= ROOM
  }
  return Array.from({ length: count }, (_, i) => first + i * step).filter(fits)
}

/** Where a moment lies, from 0 to 100. */
function place(at: number, { start, end }: TimeLine): number {
  return Math.min(100, Math.max(0, ((at - start) / (end - start)) * 100))
}

function percent(share: number): string {
  return `${Math.round(share * 100) / 100}%`
}
