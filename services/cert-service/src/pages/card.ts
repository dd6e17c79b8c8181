import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { icon, type Tone } from './notice.ts'
import { page } from './style.ts'

/** A person, or the name of the key that was entered. */
export type VisitorName = { readonly person: string } | { readonly key: string }

/** The end of the top bar. People sign out at the portal, keys here. */
export function who(visitor: VisitorName): SafeHtml {
  if ('person' in visitor) return html`<span class="who muted">${visitor.person}</span>`
  return html`
    <form class="who" method="post" action="/sign-out">
      <span class="muted">Key ${visitor.key}</span>
      <button>Sign out</button>
    </form>`
}

/** A page with one small card. The tone of its heading shows how it ended. */
export function card(title: string, body: SafeHtml, tone?: Tone): Page {
  const heading = tone
    ? html`<h1 class="toned ${tone}">${icon(tone)}<span>${title}</span></h1>`
    : html`<h1>${title}</h1>`
  return page({
    title: tabTitle(title),
    main: html`<div class="card small">${heading}${body}</div>`,
  })
}

export function tabTitle(title: string): string {
  return `${title} · Gatehouse`
}

export const toInventory = html`<p><a href="/">Back to the certificates</a></p>`

/** A card of a page with a heading. */
export function section(title: string, body: SafeHtml | ''): SafeHtml {
  return html`
    <section class="card facts-card">
      <h2>${title}</h2>
      ${body}
    </section>`
}

/** A term with its value, for a list of them. */
export function fact(label: string, value: SafeHtml | string): SafeHtml {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}

/** The same over the whole width. */
export function wideFact(label: string, value: SafeHtml | SafeHtml[]): SafeHtml {
  return html`<div class="wide"><dt>${label}</dt><dd>${value}</dd></div>`
}
