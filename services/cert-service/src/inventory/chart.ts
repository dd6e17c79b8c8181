import type { CertificateState, Tally } from '@gatehouse/cert-store/port'
import { type Language, writeDay } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { plain, say, type Text } from '../pages/say.ts'

const DAY = 86_400_000
const BARS = 14
/** The days of a bar, and what the chart is called then. */
const UNITS = [
  [1, 'Coming up, by day'],
  [7, 'Coming up, by week'],
  [30, 'Coming up, by 30 days'],
] as const satisfies readonly (readonly [number, Text])[]

/** The spans of time of the bars; the last one has no end. */
export interface Spans {
  readonly title: (typeof UNITS)[number][1]
  /** The start of each, the first one now. */
  readonly starts: readonly number[]
}

export interface Summary extends Tally {
  readonly spans: Spans
  readonly isPartial: boolean
}

/** Finds spans that reach to the furthest event, in the smallest unit that does. */
export function spansUntil(furthest: number, now: number): Spans {
  const reach = furthest - now
  const [days, title] = UNITS.find(([days]) => reach <= days * DAY * BARS) ?? UNITS[2]
  return { title, starts: Array.from({ length: BARS }, (_, i) => now + i * days * DAY) }
}

export function countOf(lang: Language, summary: Summary, state?: CertificateState): string {
  const { counts, isPartial } = summary
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
  const count = (state ? counts[state] : total).toLocaleString(lang)
  return isPartial ? `≥ ${count}` : count
}

/** Draws renewals ahead, and certificates that end without one. One bar alone would say nothing. */
export function chart(lang: Language, { renewals, ends, spans }: Summary): SafeHtml | '' {
  const totals = renewals.map((count, i) => count + (ends[i] ?? 0))
  if (totals.filter((total) => total > 0).length < 2) return ''
  const most = Math.max(...totals)
  const short = new Intl.NumberFormat(lang, { notation: 'compact' })
  const bars = totals.map((total, i) => {
    const ending = ends[i] ?? 0
    const box = (tone: string, from: number, count: number) =>
      count === 0
        ? ''
        : html`<rect class="${tone}" width="100%" y="${percent(1 - (from + count) / most)}" height="${percent(count / most)}"/>`
    const day = writeDay(lang, spans.starts[i] ?? 0)
    const from = i === BARS - 1 ? say(lang, '{day} and later', { day }) : day
    const text = say(lang, '{from}: {renewals} renewed, {ends} expire without renewal', {
      ...{ from, renewals: total - ending, ends: ending },
    })
    return html`
      <li>
        <span class="detail">${text}</span>
        <span class="count" aria-hidden="true">${total > 0 ? short.format(total) : ''}</span>
        <svg aria-hidden="true">${box('ends', 0, ending)}${box('renewals', ending, total - ending)}</svg>
        <span class="day" aria-hidden="true">${i === 0 ? plain(lang, 'now') : day}</span>
      </li>`
  })
  const key = (tone: string, text: Text) => html`
        <span>
          <svg viewBox="0 0 16 12" aria-hidden="true"><rect class="${tone}" y="1" width="10" height="10"/></svg>
          ${say(lang, text)}
        </span>`
  return html`
    <section class="ahead">
      <h2>${say(lang, spans.title)}</h2>
      <p class="key">
        ${key('renewals', 'renewal')}
        ${key('ends', 'expires without renewal')}
      </p>
      <ol class="bars">${bars}</ol>
    </section>`
}

const percent = (share: number) => `${(100 * share).toFixed(2)}%`
