import type { Provider } from '@gatehouse/identity-providers'
import type { Condition } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import { type Page, pageOf, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { DEFAULT_ACCENT } from './colors.ts'
import { outline, type SymbolName, symbol, TONES, tile } from './icons.ts'
import type { Image } from './images.ts'
import { fill, fillHtml, type Language, textsIn, writeDuration } from './languages.ts'
import { type Styles, sheetOf } from './sheets.ts'

/** Names of people, and texts of providers and errors, are cut to these many bytes of HTML. */
export const MAX_NAME = 64
export const MAX_TEXT = 200

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
  /** Absolute, since apps show some of the pages at their hosts. */
  readonly portalUrl: string
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
  view: Reader & { readonly choices: readonly Choice[]; readonly returnTo?: URL | undefined },
): Page {
  const { language, portal, returnTo } = view
  const { title, text, choices, ...notes } = textsIn(language).signIn
  const { texts } = portal
  return page(view, {
    title: texts.title ? ownText(texts.title, language).text : title,
    text: returnTo && fill(text, { host: returnTo.host }),
    content: texts.intro && ownParagraph(texts.intro, language),
    actions: html`
      <nav class="actions" aria-label="${choices}">
        ${view.choices.map((choice) => choiceLink(choice, notes))}
      </nav>`,
  })
}

/** Asks for confirmation, since a link on another site may have led here. */
export function logoutPage(view: Visit & Record<'action' | 'stayHref', string>): Page {
  const { title, text, confirm, stay } = textsIn(view.language).signOut
  const form = post(view.action, html`<button class="main">${confirm}</button>`)
  const leave = actions(form, link(view.stayHref, stay))
  return page(view, { title, text, symbol: 'leave', actions: leave })
}

/**
 * The page after signing out. `providerHref` also signs out at the provider. `mayStayValidUntil` is
 * set if the end of the session could not be stored: a copy may be valid until then, in ms.
 */
export function signedOutPage(
  view: Reader & {
    readonly signInHref: string
    readonly provider?: Pick<Provider, 'title'> | undefined
    readonly providerHref?: string | undefined
    readonly mayStayValidUntil?: number
  },
): Page {
  const texts = textsIn(view.language).signedOut
  const { provider, providerHref, mayStayValidUntil: end } = view
  const atProvider =
    provider &&
    providerHref &&
    link(providerHref, fill(texts.provider, { provider: provider.title }))
  const isDone = end === undefined
  return page(view, {
    title: texts.title,
    text: isDone ? texts.text : fillHtml(texts.notStored, { end: writeTime(view.language, end) }),
    symbol: isDone ? 'check' : 'alert',
    actions: actions(atProvider, link(view.signInHref, texts.signIn)),
  })
}

/**
 * The page for people without access: to the app at `host`, or else to anything of the portal. Under 4 kB with a short
 * link, since checks respond with it.
 */
export function refusedPage(
  view: Visit & Record<'switchHref' | 'requestId', string> & { readonly host?: string | undefined },
): Page {
  const { title, text, portalText, switchAccount } = textsIn(view.language).refused
  const { host, portal } = view
  return page(view, {
    title,
    text:
      host === undefined
        ? fill(portalText, { portal: clip(portal.title, MAX_NAME) })
        : fill(text, { host: clip(host, MAX_NAME) }),
    symbol: 'lock',
    styles: 'short',
    isInside: host !== undefined,
    requestId: view.requestId,
    actions: actions(mainLink(view.switchHref, switchAccount)),
  })
}

/**
 * The page for people who are signed in and on the way to `url` at an app. The session gets there by `image`, from one of
 * `origins`, before the page goes on by itself, or by a click that posts to `action`.
 */
export function continuePage(
  view: Visit & { readonly url: URL } & (
      | { readonly image: string; readonly origins: readonly string[] }
      | { readonly action: string }
    ),
): Page {
  const { title, back } = textsIn(view.language).signedIn
  const label = fill(back, { host: view.url.host })
  const { href, protocol } = view.url
  if ('action' in view) {
    const form = post(view.action, html`<button class="main">${label}</button>`)
    return page(view, { title, actions: actions(form), formsTo: protocol })
  }
  return page(view, {
    title,
    content: html`<img src="${view.image}" alt="" hidden>`,
    images: view.origins,
    refresh: href,
    actions: actions(mainLink(href, label)),
  })
}

/**
 * The page after a request with a body that did not reach the app. Where the browser may send it again, an image fetches the
 * session of somebody who is signed in elsewhere. Under 4 kB with a short link, too.
 */
export function unsentPage(
  view: Reader & {
    readonly signInHref: string
    /** Undefined if reloading the page sends it without a session once more. */
    readonly image: string | undefined
    readonly origins: readonly string[]
  },
): Page {
  const { title, text, reload } = textsIn(view.language).unsent
  const { image, origins } = view
  return page(view, {
    title,
    text,
    content: image && html`<p>${reload}</p><img src="${image}" alt="" hidden>`,
    symbol: 'alert',
    images: origins,
    styles: 'short',
    actions: actions(
      html`<a class="main" href="${view.signInHref}" target="_blank">${textsIn(view.language).signIn.title}</a>`,
    ),
  })
}

/** The page in a frame of an app, where nobody can sign in: it leads to `href` in a new window, and nowhere else. */
export function framedPage(view: Reader & Readonly<Record<'href' | 'framedBy', string>>): Page {
  const { framed, signIn } = textsIn(view.language)
  const { framedBy, href } = view
  const open = html`<a class="main" href="${href}" target="_blank" rel="noopener">${signIn.title}</a>`
  const button = actions(open)
  return page(view, { ...framed, symbol: 'lock', styles: 'short', framedBy, actions: button })
}

/** Says what happened and what to do next. Under 4 kB, too. */
export function errorPage(view: {
  readonly portal?: PagePortal | undefined
  readonly language: Language
  /** Undefined where the request does not tell which sign-in host its page belongs to. */
  readonly portalUrl?: string | undefined
  readonly status: number
  readonly code: string
  /** The problem in English, for the administrator: its title, and what exactly was wrong. */
  readonly problem?: { readonly title: string; readonly detail?: string | undefined } | undefined
  readonly providerSays?: string | undefined
  readonly retryHref?: string | undefined
  /** Seconds until another try is worth it. */
  readonly retryAfter?: number | undefined
  /** Tells a client of it: its page is not ours. */
  readonly clientHref?: string | undefined
  readonly requestId: string
}): Page {
  const texts = textsIn(view.language)
  const kind = errorTextFor(view.code, view.status)
  const { title, text, next } = texts.errors[kind]
  const { problem, providerSays, retryAfter } = view
  const wait = retryAfter && writeDuration(view.language, retryAfter)
  // The title of the page says less than that of the problem.
  const problemTitle = kind === view.code ? [] : [problem?.title]
  const detail = [...problemTitle, problem?.detail].filter(Boolean).join(': ')
  return page(view, {
    title,
    text,
    content: html`
      <p>${wait ? fill(texts.wait, { wait }) : next}</p>
      ${providerSays && html`<p>${texts.providerSays} <q><bdi>${clip(providerSays, MAX_TEXT)}</bdi></q></p>`}`,
    symbol: view.status === 403 && kind !== 'SETUP' ? 'lock' : 'alert',
    isInside: true,
    actions:
      view.retryHref !== undefined
        ? actions(mainLink(view.retryHref, texts.retry))
        : view.clientHref && actions(link(view.clientHref, backTo(view.clientHref, view.language))),
    detail,
    styles: 'short',
    requestId: `${view.requestId} · ${view.status} ${view.code}`,
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
  if (status === 404) return 'NOT_FOUND'
  if (code.startsWith('FWA_') || code.startsWith('PROFILE_')) return 'SETUP'
  return status < 500 ? 'REQUEST' : 'INTERNAL'
}

/** The chosen provider is down, as is known since a time in ms. `otherHref` is the list of providers, if there are several. */
export function providerDownPage(
  view: Reader & {
    readonly provider: Pick<Provider, 'title'>
    readonly since: number | undefined
    readonly retryHref: string
    readonly otherHref?: string | undefined
  },
): Page {
  const { providerDown, retry } = textsIn(view.language)
  const { title, text, outage, switchProvider } = providerDown
  const { provider, since, retryHref, otherHref } = view
  const time = since === undefined ? '' : writeTime(view.language, since)
  return page(view, {
    title: fill(title, { provider: provider.title }),
    text,
    content: time && html`<p>${fillHtml(outage, { time })}</p>`,
    symbol: 'unplugged',
    actions: actions(mainLink(retryHref, retry), otherHref && link(otherHref, switchProvider)),
  })
}

type Document = Parameters<typeof pageOf>[0]

/** A card below the title of the portal. */
interface Card extends Pick<Document, 'title' | 'images' | 'refresh' | 'formsTo' | 'framedBy'> {
  readonly text?: SafeHtml | string | undefined
  /** The content below the text. */
  readonly content?: SafeHtml | '' | undefined
  readonly symbol?: SymbolName
  readonly actions?: SafeHtml | '' | undefined
  /** Default: usual. What is short stays below 4 kB. */
  readonly styles?: Styles | undefined
  readonly hasImages?: boolean | undefined
  /** Whether it is for people who are, or may be, signed in: it leads to their account, and out. */
  readonly isInside?: boolean
  /** Whether it names the contact, as pages about problems do. */
  readonly offersHelp?: boolean
  readonly detail?: string | undefined
  readonly requestId?: string
}

export function page(
  {
    portal,
    profile,
    language,
    portalUrl,
  }: Pick<Reader, 'language'> & {
    readonly [key in 'portal' | 'profile' | 'portalUrl']?: Visit[key] | undefined
  },
  { title, text, content, styles = 'usual', hasImages, detail, requestId, ...card }: Card,
): Page {
  const texts = textsIn(language)
  const { title: brand = texts.brand, accent = DEFAULT_ACCENT, logo, favicon } = portal ?? {}
  const tone = card.symbol && TONES[card.symbol]
  const offersHelp = card.offersHelp || tone === 'warn' || tone === 'bad'
  const helper = offersHelp ? portal?.contact : undefined
  const ownFooter = portal?.texts.footer && ownParagraph(portal.texts.footer, language)
  const footer = requestId ? report(texts, requestId, detail) : ownFooter
  const ways = card.isInside && portalUrl ? waysOut(texts, portalUrl) : ''
  const { formsTo, framedBy, refresh, images = [] } = card
  const imagesUrl = portalUrl && imagesAt(portalUrl)
  const portalImages = logo || favicon || hasImages ? [imagesUrl ?? []].flat() : []
  const urlOf = (image: Image | undefined) => image && imagesUrl && `${imagesUrl}${image.name}`
  const mark = urlOf(logo)
  const body = html`
    <header>${mark ? html`<img src="${mark}" alt="${brand}">` : html`${outline('gate')}${brand}`}</header>
    <main>
      ${card.symbol && symbol(card.symbol)}
      <h1>${title}</h1>
      ${text && html`<p>${text}</p>`}
      ${content}
      ${profile && person(portal, profile)}
      ${card.actions}
      ${helper && contact(texts.contact, helper)}
    </main>
    ${(ways || footer) && html`<footer>${ways}${footer}</footer>`}`
  return pageOf(
    {
      ...{ title: `${title} · ${brand}`, language, accent, body, refresh, formsTo, framedBy },
      icon: urlOf(favicon),
      images: [...portalImages, ...images],
    },
    sheetOf(styles, accent),
  )
}

/** The address of the images of a portal. */
export function imagesAt(portalUrl: string): string {
  return `${portalUrl}/images/`
}

function waysOut({ signedIn }: ReturnType<typeof textsIn>, portalUrl: string): SafeHtml {
  const { account, signOut } = signedIn
  return html`<p><a href="${portalUrl}/account">${account}</a> · <a href="${portalUrl}/logout">${signOut}</a></p>`
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
export function ownParagraph(texts: OwnText, language: Language): SafeHtml {
  const { text, tag } = ownText(texts, language)
  return tag === undefined || tag === language
    ? html`<p>${text}</p>`
    : html`<p lang="${tag}">${text}</p>`
}

/** A text of the configuration: one for all languages, or by their tags. */
export type OwnText = string | Readonly<Record<string, string | undefined>>

function ownText(texts: OwnText, language: Language): { text: string; tag?: string } {
  if (typeof texts === 'string') return { text: texts }
  const tag = [language, 'en', ...Object.keys(texts)].find((tag) => texts[tag] !== undefined) ?? ''
  return { text: texts[tag] ?? '', tag }
}

/** Names the contact of a portal. The configuration was checked: it has no other scheme. */
function contact(question: string, address: string): SafeHtml {
  const isLink = /^(mailto:|https:\/\/)/.test(address)
  const label = address.replace(/^mailto:|^https:\/\//, '')
  const text = isLink ? html`<a href="${address}">${label}</a>` : address
  return html`<p class="ask">${question} ${text}</p>`
}

/** The name and address of the person. `<bdi>` isolates names that are written right to left. */
export function person(portal: PagePortal | undefined, profile: Profile): SafeHtml {
  const { provider, id, name, email } = profile
  const label = name?.full ?? email?.address ?? id
  const address =
    email && email.address !== label ? html`<bdi>${clip(email.address, MAX_NAME)}</bdi> · ` : ''
  const via = portal?.providers.get(provider)?.title ?? provider
  return html`
    <div class="person">
      ${initial(label)}
      <p><b><bdi>${clip(label, MAX_NAME)}</bdi></b>${address}${via}</p>
    </div>`
}

/** The first letter of a name, in place of a picture. */
export function initial(name: string): SafeHtml {
  const letter = /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?'
  return html`<span class="initial" aria-hidden="true">${letter}</span>`
}

/** Cuts a text to at most `max` bytes of HTML. */
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

function choiceLink(
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
