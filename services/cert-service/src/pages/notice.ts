import { html, type SafeHtml } from '@remix-run/html-template'

/** Icons in a view box of 24 by 24, drawn as lines. */
const ICONS = {
  good: 'M4 12a8 8 0 1 1 16 0 8 8 0 0 1-16 0M8.5 12.2l2.4 2.4 4.6-4.9',
  busy: 'M19.5 12a7.5 7.5 0 1 1-2.2-5.3M20 3v4.5h-4.5',
  warn: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1',
  bad: 'M8.2 3h7.6L21 8.2v7.6L15.8 21H8.2L3 15.8V8.2zM9 9l6 6M15 9l-6 6',
  past: 'M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16M12 8v4.5l3 2',
}

/** Success, work in progress, a warning, a refusal or failure, and what is over. */
export type Tone = keyof typeof ICONS

export function icon(tone: Tone): SafeHtml {
  return html`
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="${ICONS[tone]}"/></svg>`
}

/** A message that a person should not miss, told by its colour, its icon and its words. */
export function notice(tone: Tone, title: string | SafeHtml, more?: SafeHtml | ''): SafeHtml {
  return html`
    <div class="notice ${tone}">
      ${icon(tone)}
      <div>
        <p class="said">${title}</p>
        ${more ?? ''}
      </div>
    </div>`
}
