import { toTime } from '@gatehouse/net'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { Language } from './language.ts'

/** The forms of a time in a page. A form without the time of day has no zone. */
const FORMS = {
  minute: { dateStyle: 'medium', timeStyle: 'short' },
  clock: { timeStyle: 'short' },
  day: { day: 'numeric', month: 'short' },
} as const satisfies Readonly<Record<string, Intl.DateTimeFormatOptions>>
type Form = keyof typeof FORMS

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const
/** A unit is used from two of it on: `in 47 hours`, then `in 2 days`. */
const ENOUGH = 2

/** Writes the times of a page in the zone of the browser. Their titles keep what the page said in UTC. */
export const TIME_SCRIPT = `
for (const time of document.querySelectorAll('time')) {
  const { lang } = document.documentElement
  const format = new Intl.DateTimeFormat(lang === 'en' ? 'en-GB' : lang, ${JSON.stringify(FORMS)}[time.dataset.form ?? 'minute'])
  const text = format.format(new Date(time.dateTime))
  time.title = time.dataset.form ? time.textContent : text
  if (time.dataset.form) time.textContent = text
}`

/** Created on first use: creating them takes a large part of a start. */
const formats: { [language in Language]?: ReturnType<typeof createFormats> } = {}
const formatsIn = (language: Language) => (formats[language] ??= createFormats(language))

function createFormats(language: Language) {
  const locale = language === 'en' ? 'en-GB' : language
  const utc = (form: Form) => new Intl.DateTimeFormat(locale, { ...FORMS[form], timeZone: 'UTC' })
  return {
    relative: new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }),
    minute: utc('minute'),
    clock: utc('clock'),
    day: utc('day'),
  }
}

/** Writes a time relative to now: `in 3 days`, `5 minutes ago`. */
export function distanceFrom(language: Language, time: number, now: number): string {
  const distance = time - now
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(distance) >= ENOUGH * ms) ?? UNITS[2]
  return formatsIn(language).relative.format(Math.trunc(distance / size), unit)
}

/** Writes a time in ms relative to now; its title says when that is. */
export function writeDistance(language: Language, time: number, now: number): SafeHtml {
  const title = textOf(language, time, 'minute')
  return html`<time datetime="${toTime(time)}" title="${title}">${distanceFrom(language, time, now)}</time>`
}

/** Writes a time in ms: `3 Feb 2026, 12:03 UTC`, and in the zone of a browser that runs `TIME_SCRIPT`. */
export function writeTime(language: Language, time: number): SafeHtml {
  return timeIn(language, time, 'minute')
}

/** Writes the time of day: `12:03 UTC`. */
export function writeClock(language: Language, time: number): SafeHtml {
  return timeIn(language, time, 'clock')
}

/** Writes the day: `3 Feb`. */
export function writeDay(language: Language, time: number): SafeHtml {
  return timeIn(language, time, 'day')
}

function timeIn(language: Language, time: number, form: Form): SafeHtml {
  return html`<time datetime="${toTime(time)}" data-form="${form}">${textOf(language, time, form)}</time>`
}

function textOf(language: Language, time: number, form: Form): string {
  const text = formatsIn(language)[form].format(time)
  return form === 'day' ? text : `${text} UTC`
}
