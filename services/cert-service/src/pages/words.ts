import { html, type SafeHtml } from '@remix-run/html-template'
import { toTime } from '../issuance/answer.ts'

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const
/** Of a unit, before the next one takes over: nobody counts in 70 hours. */
const ENOUGH = 2

/** Made when first needed: making them would take as long as much of a start. */
const formats = once(() => ({
  relative: new Intl.RelativeTimeFormat('en', { numeric: 'auto' }),
  minute: new Intl.DateTimeFormat('en-GB', {
    dateStyle: 'medium',
    timeStyle: 'short',
    timeZone: 'UTC',
  }),
  day: new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }),
}))

/** How far a moment is from now: `in 3 days`, `5 minutes ago`. */
export function fromNow(at: number, now: number): string {
  const distance = at - now
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(distance) >= ENOUGH * ms) ?? UNITS[2]
  return formats().relative.format(Math.trunc(distance / size), unit)
}

/** How far a moment is from now, with the moment itself for whoever points at it. */
export function whenFromNow(at: number, now: number): SafeHtml {
  return html`<time datetime="${toTime(at)}" title="${formats().minute.format(at)} UTC">${fromNow(at, now)}</time>`
}

/** A moment to the minute. */
export function when(at: number): SafeHtml {
  return html`<time datetime="${toTime(at)}">${formats().minute.format(at)}</time>`
}

/** `1 Jan`. */
export function shortDay(at: number): string {
  return formats().day.format(at)
}

function once<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}
