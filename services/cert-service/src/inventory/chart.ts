import { html, type SafeHtml } from '@remix-run/html-template'
import { dayOf } from '../pages/time.ts'
import type { CertificateState, Tally } from '../store/store.ts'

const DAY = 86_400_000
const BARS = 14
/** The days of a bar, and its name. */
const UNITS = [
  [1, 'day'],
  [7, 'week'],
  [30, '30 days'],
] as const
/** The percentage of its share that a bar takes. */
const WIDTH = 70

/** The spans of time of the bars; the last one has no end. */
export interface Spans {
  readonly unit: string
  /** The start of each, the first one now. */
  readonly starts: readonly number[]
}

/** The number of certificates in each state, and of renewals and ends ahead. */
export interface Summary extends Tally {
  readonly spans: Spans
  /** Whether only some certificates were counted. */
  readonly isPartial: boolean
}

/** Finds spans that reach to the furthest event, in the smallest unit that does. */
export function spansUntil(furthest: number, now: number): Spans {
  const reach = furthest - now
  const [days, unit] = UNITS.find(([days]) => reach <= days * DAY * BARS) ?? UNITS[2]
  return { unit, starts: Array.from({ length: BARS }, (_, i) => now + i * days * DAY) }
}

export function countOf({ counts, isPartial }: Summary, state?: CertificateState): string {
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0)
  const count = (state ? counts[state] : all).toLocaleString('en')
  return isPartial ? `at least ${count}` : count
}

/** Draws renewals ahead, and certificates that end without one. */
export function chart(summary: Summary): SafeHtml | '' {
  const { renewals, ends, spans, isPartial } = summary
  const totals = renewals.map((count, i) => count + (ends[i] ?? 0))
  const most = Math.max(...totals)
  if (most === 0) return ''
  const share = 100 / BARS
  const width = (WIDTH / 100) * share
  const bars = totals.map((total, i) => {
    const ending = ends[i] ?? 0
    const x = (i + (1 - WIDTH / 100) / 2) * share
    const box = (tone: string, from: number, count: number) => {
      const size = (count / most) * 100
      const y = 100 - ((from + count) / most) * 100
      return count === 0
        ? ''
        : html`<rect class="${tone}" x="${percent(x)}" width="${percent(width)}" y="${percent(y)}" height="${percent(size)}"/>`
    }
    return html`${box('ends', 0, ending)}${box('renewals', ending, total - ending)}`
  })
  const rows = totals.map(
    (_, i) => html`
            <tr><th scope="row">${spanText(spans, i)}</th><td>${renewals[i]}</td><td>${ends[i]}</td></tr>`,
  )
  const key = (tone: string, text: string) => html`
        <span>
          <svg viewBox="0 0 16 12" aria-hidden="true"><rect class="${tone}" y="1" width="10" height="10"/></svg>${text}</span>`
  return html`
    <section class="card ahead">
      <h2>Upcoming, by ${spans.unit}</h2>
      <p class="key">
        ${key('renewals', 'renewals')}
        ${key('ends', 'ends without renewal')}
        <span>at most ${most.toLocaleString('en')} in one bar</span>
      </p>
      <svg class="bars" aria-hidden="true">${bars}</svg>
      <p class="edges" aria-hidden="true">
        <span>now</span>
        <span>${spanText(spans, BARS / 2)}</span>
        <span>${spanText(spans, BARS - 1)}</span>
      </p>
      <details>
        <summary>As a table</summary>
        <table>
          <thead>
            <tr><th scope="col">From</th><th scope="col">Renewals</th><th scope="col">Ends</th></tr>
          </thead>
          <tbody>${rows}</tbody>
        </table>
      </details>
      ${isPartial ? html`<p>Not all certificates were counted.</p>` : ''}
    </section>`
}

const percent = (share: number) => `${share.toFixed(2)}%`

function spanText({ starts }: Spans, at: number): string {
  const day = dayOf(starts[at] ?? 0)
  return at === starts.length - 1 ? `${day} and later` : day
}
