import type { Language, Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { icon, type Tone } from './notice.ts'
import { plain, say } from './say.ts'
import { page } from './style.ts'

/** A person, with the pages of the portal. */
export interface NamedPerson {
  readonly person: string
  readonly groups: readonly string[]
  readonly accountHref: string
  readonly signOutHref: string
}

/** A person, or the name of the key that was entered. */
export type VisitorName = NamedPerson | { readonly key: string }

/** Who reads a page: in which language, and as whom, if that is known. */
export interface Reader {
  readonly lang: Language
  readonly visitor?: VisitorName | undefined
}

/** The end of the top bar. People sign out at the portal, keys here. */
export function who({ lang, visitor }: Reader): SafeHtml | '' {
  if (!visitor) return ''
  if ('person' in visitor)
    return html`
    <nav class="who" aria-label="${plain(lang, 'Account')}">
      <a href="${visitor.accountHref}"><bdi>${visitor.person}</bdi></a>
      <a href="${visitor.signOutHref}">${say(lang, 'Sign out')}</a>
    </nav>`
  return html`
    <form class="who" method="post" action="/sign-out">
      <span class="muted">${say(lang, 'Key {name}', { name: html`<bdi>${visitor.key}</bdi>` })}</span>
      <button>${say(lang, 'Sign out')}</button>
    </form>`
}

/** A page with one small card. The tone of its heading shows how it ended. */
export function card(
  reader: Reader,
  title: string,
  body: SafeHtml,
  { tone, lang = reader.lang }: { readonly tone?: Tone | undefined; readonly lang?: Language } = {},
): Page {
  const langAttribute = lang === reader.lang ? '' : html` lang="${lang}"`
  const heading = tone
    ? html`<h1 class="toned ${tone}">${icon(tone)}<span${langAttribute}>${title}</span></h1>`
    : html`<h1${langAttribute}>${title}</h1>`
  return page({
    language: reader.lang,
    title: tabTitle(title),
    bar: who(reader),
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
