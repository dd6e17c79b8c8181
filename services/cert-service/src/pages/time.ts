import { toTime } from '@gatehouse/issuance/times'
import type { Language } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const
/** A unit is used from two of it on: `in 47 hours`, then `in 2 days`. */
const ENOUGH = 2

/** Created on first use: creating them takes a large part of a start. */
const formats: { [lang in Language]?: ReturnType<typeof createFormats> } = {}
const format = (lang: Language) => (formats[lang] ??= createFormats(lang))

function createFormats(lang: Language) {
  const timeZone = 'UTC'
  const locale = lang === 'en' ? 'en-GB' : lang
  return {
    relative: new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }),
    minute: new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone }),
    clock: new Intl.DateTimeFormat(locale, { timeStyle: 'short', timeZone }),
    day: new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', timeZone }),
  }
}

/** Writes a moment relative to now: `in 3 days`, `5 minutes ago`. */
export function fromNow(lang: Language, time: number, now: number): string {
  const distance = time - now
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(distance) >= ENOUGH * ms) ?? UNITS[2]
  return format(lang).relative.format(Math.trunc(distance / size), unit)
}

export function whenFromNow(lang: Language, time: number, now: number): SafeHtml {
  const title = `${format(lang).minute.format(time)} UTC`
  return html`<time datetime="${toTime(time)}" title="${title}">${fromNow(lang, time, now)}</time>`
}

export function when(lang: Language, time: number): SafeHtml {
  return html`<time datetime="${toTime(time)}">${format(lang).minute.format(time)}</time>`
}

/** Writes the time of day: `12:03 UTC`. */
export function clock(lang: Language, time: number): SafeHtml {
  return html`<time datetime="${toTime(time)}">${format(lang).clock.format(time)} UTC</time>`
}

/** Writes the day in UTC: `3 Feb`. */
export function dayOf(lang: Language, time: number): string {
  return format(lang).day.format(time)
}
