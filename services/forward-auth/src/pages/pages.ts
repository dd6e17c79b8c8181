import type { Provider } from '@gatehouse/identity-providers'
import type { Condition } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { DEFAULT_ACCENT } from './colors.ts'
import { type SymbolName, symbol, TONES, tile } from './icons.ts'
import type { Image } from './images.ts'
import { fill, type Language, textsIn, writeTime } from './languages.ts'
import { type Styles, shell } from './shell.ts'

/** Names of people, and texts of providers and errors, are cut to these many bytes of HTML. */
export const MAX_NAME = 80
export const MAX_TEXT = 240

/** The members of a portal that pages show. */
export interface PagePortal {
  readonly title: string
  readonly accent: string
  readonly providers: ReadonlyMap<string, Pick<Provider, 'title'>>
  readonly texts: Readonly<Partial<Record<'title' | 'intro' | 'footer', OwnText>>>
  readonly contact: string | undefined
  readonly logo: Image | undefined
  readonly favicon: Image | undefined
}

/** The reader of a page, and the portal. */
export interface Reader {
  readonly portal: PagePortal
  readonly language: Language
  /** Absolute URL of the folder of the images, since apps show some of the pages at their hosts. */
  readonly imagesUrl: string
}

/** A reader who is signed in. */
export interface Visit extends Reader {
  readonly profile: Profile
}

export interface Choice extends Pick<Provider, 'title' | 'icon' | 'color'> {
  readonly href: string
  readonly condition: Condition
}

/** The list of providers, with the host of `returnTo`, the validated return URL. */
export function signInPage(
  of: Reader & { readonly choices: readonly Choice[]; readonly returnTo?: URL | undefined },
): Page {
  const { title, text, choices, ...notes } = textsIn(of.language).signIn
  const { texts } = of.portal
  return page(of, {
    title: texts.title ? ownText(texts.title, of.language).text : title,
    text: of.returnTo && fill(text, { host: of.returnTo.host }),
    more: texts.intro && own(texts.intro, of.language),
    actions: html`
      <nav class="actions" aria-label="${choices}">
        ${of.choices.map((one) => choice(one, notes))}
      </nav>`,
  })
}

/** Asks for confirmation, since a link on another site may have led here. */
export function logoutPage(of: Visit & Record<'action' | 'stayHref', string>): Page {
  const { title, text, confirm, stay } = textsIn(of.language).signOut
  const form = post(of.action, html`<button class="main">${confirm}</button>`)
  return page(of, { title, text, symbol: 'leave', actions: actions(form, link(of.stayHref, stay)) })
}

/**
 * The page after signing out. `providerHref` also signs out at the provider. `mayStayValidUntil` is
 * set if the end of the session could not be stored: a copy may be valid until then, in ms.
 */
export function signedOutPage(
  of: Reader & {
    readonly signInHref: string
    readonly provider?: Pick<Provider, 'title'> | undefined
    readonly providerHref?: string | undefined
    readonly mayStayValidUntil?: number
  },
): Page {
  const { title, text, notStored, provider, signIn } = textsIn(of.language).signedOut
  const { mayStayValidUntil: end } = of
  const atProvider =
    of.provider &&
    of.providerHref &&
    link(of.providerHref, fill(provider, { provider: of.provider.title }))
  const isDone = end === undefined
  return page(of, {
    title,
    text: isDone ? text : fill(notStored, { end: writeTime(of.language, end) }),
    symbol: isDone ? 'check' : 'alert',
    actions: actions(atProvider, link(of.signInHref, signIn)),
  })
}

/**
 * Signed in without access. Under 4 kB with a short link, since checks respond with it. `appsHref` leads
 * to what the person may open.
 */
export function refusedPage(
  of: Visit & Record<'switchHref' | 'requestId', string> & { readonly appsHref?: string },
): Page {
  const { title, text, other } = textsIn(of.language).refused
  const { requestId } = of
  return page(of, {
    title,
    text,
    symbol: 'lock',
    styles: 'short',
    requestId,
    actions: actions(
      mainLink(of.switchHref, other),
      of.appsHref && link(of.appsHref, textsIn(of.language).signedIn.apps),
    ),
  })
}

/**
 * Signed in, on the way to `url` at an app. The session gets there by `image`, from one of `origins`, before the page
 * goes on by itself, or by a click that posts to `action`.
 */
export function continuePage(
  of: Visit & { readonly url: URL } & (
      | { readonly image: string; readonly origins: readonly string[] }
      | { readonly action: string }
    ),
): Page {
  const { title, back } = textsIn(of.language).signedIn
  const label = fill(back, { host: of.url.host })
  const { href, protocol } = of.url
  if ('action' in of) {
    const form = post(of.action, html`<button class="main">${label}</button>`)
    return page(of, { title, actions: actions(form), formsTo: protocol })
  }
  return page(of, {
    title,
    more: html`<img src="${of.image}" alt="" hidden>`,
    images: of.origins,
    refresh: href,
    actions: actions(mainLink(href, label)),
  })
}

/**
 * What the browser sent did not reach the app. Where it may send it again, an image fetches the session of somebody who is
 * signed in elsewhere. Under 4 kB with a short link, too.
 */
export function unsentPage(
  of: Reader & {
    readonly signInHref: string
    /** Undefined if reloading the page sends it without a session once more. */
    readonly image: string | undefined
    readonly origins: readonly string[]
  },
): Page {
  const { title, text, reload } = textsIn(of.language).unsent
  const { image, origins } = of
  return page(of, {
    title,
    text,
    more: image && html`<p>${reload}</p><img src="${image}" alt="" hidden>`,
    symbol: 'alert',
    images: origins,
    styles: 'short',
    actions: actions(
      html`<a class="main" href="${of.signInHref}" target="_blank">${textsIn(of.language).signIn.title}</a>`,
    ),
  })
}

/** In a frame of an app, where nobody can sign in: it leads to `href` in a window of its own, and nowhere else. */
export function framedPage(of: Reader & Readonly<Record<'href' | 'framedBy', string>>): Page {
  const { framed, signIn } = textsIn(of.language)
  const { framedBy, href } = of
  const open = html`<a class="main" href="${href}" target="_blank" rel="noopener">${signIn.title}</a>`
  return page(of, { ...framed, symbol: 'lock', styles: 'short', framedBy, actions: actions(open) })
}

/** Says what happened and what to do next. Under 4 kB, too. */
export function errorPage(of: {
  readonly portal?: PagePortal | undefined
  readonly language: Language
  /** Undefined where the request does not tell which sign-in host its page belongs to. */
  readonly imagesUrl?: string | undefined
  readonly status: number
  readonly code: string
  /** The problem in English, for the administrator: its title, and what exactly was wrong. */
  readonly problem?: { readonly title: string; readonly detail?: string | undefined } | undefined
  /** The words of the provider. */
  readonly providerSays?: string | undefined
  readonly retryHref?: string | undefined
  /** Tells a client of it: its page is not ours. */
  readonly clientHref?: string | undefined
  readonly requestId: string
}): Page {
  const texts = textsIn(of.language)
  const kind = errorTextFor(of.code, of.status)
  const { title, happened, next } = texts.errors[kind]
  const { problem, providerSays: said } = of
  // The title of the page says less than that of the problem.
  const named = kind === of.code ? [] : [problem?.title]
  const detail = [...named, problem?.detail].filter(Boolean).join(': ')
  return page(of, {
    title,
    text: happened,
    more: html`
      <p>${next}</p>
      ${said && html`<p>${texts.providerSays} <q><bdi>${clip(said, MAX_TEXT)}</bdi></q></p>`}`,
    symbol: of.status === 403 && kind !== 'SETUP' ? 'lock' : 'alert',
    actions: of.retryHref
      ? actions(mainLink(of.retryHref, texts.retry))
      : of.clientHref && actions(link(of.clientHref, backTo(of.clientHref, of.language))),
    detail,
    styles: 'short',
    requestId: `${of.requestId} · ${of.status} ${of.code}`,
  })
}

function backTo(href: string, language: Language): string {
  const { protocol, host } = new URL(href)
  return fill(textsIn(language).signedIn.back, { host: clip(host || protocol, MAX_NAME) })
}

type ErrorText = keyof ReturnType<typeof textsIn>['errors']

/** Errors that only an administrator can do something about share a text. */
function errorTextFor(code: string, status: number): ErrorText {
  if (Object.hasOwn(textsIn('en').errors, code)) return code as ErrorText
  if (code.startsWith('FWA_') || code.startsWith('PROFILE_')) return 'SETUP'
  return status < 500 ? 'REQUEST' : 'INTERNAL'
}

/** The chosen provider is down. `otherHref` is the list of providers, if there are several. */
export function providerDownPage(
  of: Reader & {
    readonly provider: Pick<Provider, 'title'>
    readonly retryHref: string
    readonly otherHref?: string | undefined
  },
): Page {
  const { providerDown, retry } = textsIn(of.language)
  const { title, text, other } = providerDown
  return page(of, {
    title: fill(title, { provider: of.provider.title }),
    text,
    symbol: 'unplugged',
    actions: actions(mainLink(of.retryHref, retry), of.otherHref && link(of.otherHref, other)),
  })
}

type Content = Parameters<typeof shell>[0]

interface Card extends Pick<Content, 'title' | 'images' | 'refresh' | 'formsTo' | 'framedBy'> {
  readonly text?: string | undefined
  /** Below the text. */
  readonly more?: SafeHtml | '' | undefined
  readonly symbol?: SymbolName
  readonly actions?: SafeHtml | '' | undefined
  /** Default: usual. What is short stays below 4 kB. */
  readonly styles?: Styles | undefined
  readonly hasImages?: boolean | undefined
  readonly detail?: string | undefined
  readonly requestId?: string
}

export function page(
  {
    portal,
    profile,
    language,
    imagesUrl,
  }: Pick<Reader, 'language'> & {
    readonly [key in 'portal' | 'profile' | 'imagesUrl']?: Visit[key] | undefined
  },
  { title, text, more, styles = 'usual', hasImages, detail, requestId, ...card }: Card,
): Page {
  const texts = textsIn(language)
  const tone = card.symbol && TONES[card.symbol]
  const helper = tone === 'warn' || tone === 'bad' ? portal?.contact : undefined
  const ownFooter = portal?.texts.footer
  const { logo, favicon } = portal ?? {}
  const { formsTo, framedBy, refresh, images = [] } = card
  const ofPortal = logo || favicon || hasImages ? [imagesUrl ?? []].flat() : []
  const urlOf = (image: Image | undefined) => image && imagesUrl && `${imagesUrl}${image.name}`
  return shell({
    title,
    language,
    brand: portal?.title ?? texts.brand,
    accent: portal?.accent ?? DEFAULT_ACCENT,
    body: html`
      ${card.symbol && symbol(card.symbol)}
      <h1>${title}</h1>
      ${text && html`<p>${text}</p>`}
      ${more}
      ${profile && person(portal, profile)}
      ${card.actions}
      ${helper && contact(texts.contact, helper)}`,
    styles,
    logo: urlOf(logo),
    icon: urlOf(favicon),
    images: [...ofPortal, ...images],
    refresh,
    formsTo,
    framedBy,
    footer: requestId ? report(texts, requestId, detail) : ownFooter && own(ownFooter, language),
  })
}

/** The lines that people tell the administrator. */
function report(
  { details, requestId: label }: ReturnType<typeof textsIn>,
  requestId: string,
  detail: string | undefined,
): SafeHtml {
  return html`
    ${detail && html`<p>${details} <bdi lang="en">${clip(detail, MAX_TEXT)}</bdi></p>`}
    <p>${label} ${requestId}</p>`
}

/** An own text of a portal. Where it lacks the language of the page, it says which one it has. */
export function own(texts: OwnText, language: Language): SafeHtml {
  const { text, tag } = ownText(texts, language)
  return tag === undefined || tag === language
    ? html`<p>${text}</p>`
    : html`<p lang="${tag}">${text}</p>`
}

/** A text of the configuration: one for all languages, or by their tags. */
export type OwnText = string | Readonly<Record<string, string | undefined>>

function ownText(texts: OwnText, language: Language): { text: string; tag?: string } {
  if (typeof texts === 'string') return { text: texts }
  const tag = [language, 'en', ...Object.keys(texts)].find((one) => texts[one] !== undefined) ?? ''
  return { text: texts[tag] ?? '', tag }
}

/** Names the contact of a portal. The configuration was checked: it has no other scheme. */
function contact(question: string, where: string): SafeHtml {
  const isLink = /^(mailto:|https:\/\/)/.test(where)
  const shown = where.replace(/^mailto:|^https:\/\//, '')
  const text = isLink ? html`<a class="inline" href="${where}">${shown}</a>` : where
  return html`<p class="ask">${question} ${text}</p>`
}

/** The name and address of the person. `<bdi>` isolates names that are written right to left. */
export function person(
  portal: PagePortal | undefined,
  { provider, id, name, email }: Profile,
): SafeHtml {
  const who = name?.full ?? email?.address ?? id
  const address =
    email && email.address !== who ? html`<bdi>${clip(email.address, MAX_NAME)}</bdi> · ` : ''
  const via = portal?.providers.get(provider)?.title ?? provider
  return html`
    <div class="person">
      ${initial(who)}
      <p><b><bdi>${clip(who, MAX_NAME)}</bdi></b>${address}${via}</p>
    </div>`
}

/** The first letter of a name, in place of a picture. */
export function initial(name: string): SafeHtml {
  const letter = /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?'
  return html`<span class="initial" aria-hidden="true">${letter}</span>`
}

/** Cuts a text at so many bytes of HTML. */
export function clip(text: string, max: number): string {
  let bytes = 0
  let length = 0
  for (const character of text) {
    bytes += ESCAPED[character] ?? Buffer.byteLength(character)
    if (bytes > max) return `${text.slice(0, length)}…`
    length += character.length
  }
  return text
}

/** Bytes of the characters that HTML escapes. */
const ESCAPED: Readonly<Record<string, number>> = { '&': 5, '<': 4, '>': 4, '"': 6, "'": 5 }

function choice(
  { title, icon, color, href, condition }: Choice,
  notes: Readonly<Record<Exclude<Condition, 'well'>, string>>,
): SafeHtml {
  const note = condition === 'well' ? '' : html`<small>${notes[condition]}</small>`
  return html`
    <a class="choice" href="${href}">
      ${tile(icon, color)}
      <span>${title}${note}</span>
    </a>`
}

export function actions(...items: (SafeHtml | '' | undefined)[]): SafeHtml {
  return html`<div class="actions">${items}</div>`
}

export function link(href: string, text: string): SafeHtml {
  return html`<a href="${href}">${text}</a>`
}

export function mainLink(href: string, text: string): SafeHtml {
  return html`<a class="main" href="${href}">${text}</a>`
}

/** A form to one of our own URLs. The policy of its page says where the answer may redirect to. */
export function post(action: string, content: SafeHtml): SafeHtml {
  return html`<form method="post" action="${action}">${content}</form>`
}
