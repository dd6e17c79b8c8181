import type { Language, Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { icon, type Tone } from './notice.ts'
import { say } from './say.ts'
import { page } from './style.ts'

/** A person, or the name of the key that was entered. */
export type VisitorName = { readonly person: string } | { readonly key: string }

/** The end of the top bar. People sign out at the portal, keys here. */
export function who(lang: Language, visitor: VisitorName): SafeHtml {
  if ('person' in visitor) return html`<bdi class="who muted">${visitor.person}</bdi>`
  return html`
    <form class="who" method="post" action="/sign-out">
      <span class="muted">${say(lang, 'Key {name}', { name: html`<bdi>${visitor.key}</bdi>` })}</span>
      <button>${say(lang, 'Sign out')}</button>
    </form>`
}

/** A page with one small card. The tone of its heading shows how it ended. */
export function card(
  language: Language,
  title: string,
  body: SafeHtml,
  { tone, lang = language }: { readonly tone?: Tone | undefined; readonly lang?: Language } = {},
): Page {
  const langAttribute = lang === language ? '' : html` lang="${lang}"`

  const heading = tone
    ? html`<h1 class="toned ${tone}">${icon(tone)}<span${langAttribute}>${title}</span></h1>`
    : html`<h1${langAttribute}>${title}</h1>`
  return page({
    language,
    title: tabTitle(title),
    main: html`<div class="card small">${heading}${body}</div>`,
  })
}

export function tabTitle(title: string): string {
  return `${title} · Gatehouse`
}

export function toInventory(lang: Language): SafeHtml {
  return html`<p><a href="/">${say(lang, 'Back to the certificates')}</a></p>`
}

export function section(title: string | SafeHtml, body: SafeHtml | ''): SafeHtml {
  return html`
    <section class="card facts-card">
      <h2>${title}</h2>
      ${body}
    </section>`
}

export function fact(label: string | SafeHtml, value: SafeHtml | string): SafeHtml {
  return html`<div><dt>${label}</dt><dd>${value}</dd></div>`
}

export function wideFact(label: string | SafeHtml, value: SafeHtml | SafeHtml[]): SafeHtml {
  return html`<div class="wide"><dt>${label}</dt><dd>${value}</dd></div>`
}
