import { html, type SafeHtml } from '@remix-run/html-template'
import type { CertificateRecord } from '../store/store.ts'
import { toTime } from '../times.ts'

const DAY = 86_400_000
/** The longest future on the time line. On a longer one, short certificates would be dots. */
const MAX_FUTURE = 90 * DAY
/** Days between the dates on the axis. */
const STEPS = [1, 2, 3, 5, 7, 14, 28]
const MAX_TICKS = 5
/** The percentage of the axis that a date takes. */
const ROOM = 9
const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const
/** A unit is used from two of it on: `in 47 hours`, then `in 2 days`. */
const ENOUGH = 2

/** Created on first use: creating them takes a large part of a start. */
let formats: ReturnType<typeof createFormats> | undefined
const format = () => (formats ??= createFormats())

function createFormats() {
  const timeZone = 'UTC'
  return {
    relative: new Intl.RelativeTimeFormat('en', { numeric: 'auto' }),
    minute: new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone }),
    clock: new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone }),
    day: new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone }),
  }
}

export type Moments = Pick<CertificateRecord, 'notBefore' | 'notAfter' | 'renewAt'>

export type TimeLine = ReturnType<typeof timeLineOf>

/** Spans a time line for these certificates; at most half of it is past. */
export function timeLineOf(certificates: readonly Moments[], now: number) {
  const ends = certificates.map(({ notAfter }) => notAfter)
  const starts = certificates.map(({ notBefore }) => notBefore)
  const end = Math.min(now + MAX_FUTURE, Math.max(now + DAY, ...ends))
  const start = Math.max(now - (end - now), Math.min(now - DAY, ...starts))
  const margin = (end - start) / 30
  return { start: start - margin, end: end + margin, now }
}

/** Draws the validity of a certificate. The text beside it says the same. */
export function bar({ notBefore, notAfter, renewAt }: Moments, line: TimeLine): SafeHtml {
  const from = position(notBefore, line)
  const now = position(line.now, line)
  const to = position(notAfter, line)
  const lived = Math.min(Math.max(now, from), to)
  const renewal =
    renewAt !== null && renewAt > line.start && renewAt < line.end
      ? html`<circle cx="${percent(position(renewAt, line))}" cy="50%" r="5"/>`
      : ''
  const span = (tone: string, start: number, end: number) =>
    html`<rect class="${tone}" x="${percent(start)}" width="${percent(end - start)}" y="35%" height="30%" rx="4"/>`
  return html`
    <svg class="line" aria-hidden="true">
      ${span('past', from, to)}
      ${span('left', lived, to)}
      <line x1="${percent(now)}" x2="${percent(now)}" y1="0" y2="100%"/>
      ${renewal}
    </svg>`
}

export function axis(line: TimeLine): SafeHtml {
  const now = position(line.now, line)
  const dates = ticks(line).map(
    (at) =>
      html`<text x="${percent(position(at, line))}" y="80%">${format().day.format(at)}</text>`,
  )
  return html`
    <svg class="axis" aria-hidden="true">
      ${dates}
      <text class="now" x="${percent(now)}" y="80%">now</text>
    </svg>`
}

/** Finds evenly spaced midnights whose dates overlap neither `now` nor the edges. */
function ticks(line: TimeLine): number[] {
  const { start, end, now } = line
  const days = (end - start) / DAY
  const step = (STEPS.find((each) => days / each <= MAX_TICKS) ?? Math.ceil(days / MAX_TICKS)) * DAY
  const midnight = now - (now % DAY)
  const first = midnight - Math.floor((midnight - start) / step) * step
  const count = Math.floor((end - first) / step) + 1
  const fits = (at: number) => {
    const x = position(at, line)
    return x >= ROOM / 2 && x <= 100 - ROOM / 2 && Math.abs(x - position(now, line)) >= ROOM
  }
  return Array.from({ length: count }, (_, i) => first + i * step).filter(fits)
}

function position(at: number, { start, end }: TimeLine): number {
  return Math.min(100, Math.max(0, ((at - start) / (end - start)) * 100))
}

function percent(share: number): string {
  return `${Math.round(share * 100) / 100}%`
}

/** Writes a moment relative to now: `in 3 days`, `5 minutes ago`. */
export function fromNow(at: number, now: number): string {
  const distance = at - now
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(distance) >= ENOUGH * ms) ?? UNITS[2]
  return format().relative.format(Math.trunc(distance / size), unit)
}

export function whenFromNow(at: number, now: number): SafeHtml {
  const title = `${format().minute.format(at)} UTC`
  return html`<time datetime="${toTime(at)}" title="${title}">${fromNow(at, now)}</time>`
}

export function when(at: number): SafeHtml {
  return html`<time datetime="${toTime(at)}">${format().minute.format(at)}</time>`
}

/** Writes the time of day: `12:03 UTC`. */
export function clock(at: number): SafeHtml {
  return html`<time datetime="${toTime(at)}">${format().clock.format(at)} UTC</time>`
}

/** Writes the day in UTC: `3 Feb`. */
export function dayOf(at: number): string {
  return format().day.format(at)
}
