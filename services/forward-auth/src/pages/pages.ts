import type { Profile } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { Portal } from '../portals.ts'
import type { Provider } from '../providers/provider.ts'
import { DEFAULT_ACCENT } from './colors.ts'
import { type SymbolName, symbol, tile } from './icons.ts'
import { shell } from './shell.ts'
import { texts } from './texts.ts'

/** Longer names and texts of providers and errors are cut to this many characters. */
const MAX_NAME = 40
const MAX_TEXT = 150

export type PagePortal = Pick<Portal, 'title' | 'accent' | 'providers'>

interface Visit {
  readonly portal: PagePortal
  readonly profile: Profile
}

export interface Choice extends Pick<Provider, 'title' | 'icon' | 'color'> {
  readonly href: string
  readonly failing: boolean
}

/** The list of providers. It shows the host of `returnTo`, the validated return URL. */
export function signInPage(of: {
  readonly portal: PagePortal
  readonly choices: readonly Choice[]
  readonly returnTo?: URL | undefined
}): Page {
  const { title, text, choices } = texts.signIn
  return page(of, {
    title,
    text: of.returnTo && text(of.returnTo.host),
    hasList: true,
    actions: html`<nav aria-label="${choices}">${of.choices.map(choice)}</nav>`,
  })
}

/** An app that the person may open. */
interface ShownApp {
  readonly name: string
  readonly url: URL
}

/**
 * Who is signed in, their apps, and where they came from. `apps` is undefined where no app is known.
 */
export function signedInPage(
  of: Visit &
    Record<'logoutHref' | 'profileHref', string> & {
      readonly apps?: readonly ShownApp[] | undefined
      /** Validated. */
      readonly cameFrom?: URL | undefined
    },
): Page {
  const { title, back, profile, signOut } = texts.signedIn
  const { cameFrom } = of
  return page(of, {
    title,
    symbol: 'check',
    hasList: true,
    actions: html`${of.apps && appList(of.apps)}${actions(
      cameFrom && mainLink(cameFrom.href, back(cameFrom.host)),
      link(of.profileHref, profile),
      link(of.logoutHref, signOut),
    )}`,
  })
}

function appList(apps: readonly ShownApp[]): SafeHtml {
  const { apps: title, noApps } = texts.signedIn
  if (apps.length === 0) return html`<p class="actions">${noApps}</p>`
  return html`<nav aria-labelledby="apps"><h2 id="apps">${title}</h2>${apps.map(appLink)}</nav>`
}

function appLink({ name, url }: ShownApp): SafeHtml {
  const host = name === url.host ? '' : html`<small>${url.host}</small>`
  return html`<a class="choice" href="${url.href}"><span class="initial" aria-hidden="true">${initialOf(name)}</span><span><bdi>${name}</bdi>${host}</span></a>`
}

function initialOf(name: string): string {
  return /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?'
}

/**
 * Asks for confirmation, since a link on another site may have led here. The form is posted to
 * `action`; the policy requires our own origin, for redirects too.
 */
export function logoutPage(of: Visit & Record<'action' | 'stayHref', string>): Page {
  const { title, text, confirm, stay } = texts.signOut
  const button = html`<button class="main">${confirm}</button>`
  const form = html`<form method="post" action="${of.action}">${button}</form>`
  return page(of, { title, text, symbol: 'leave', actions: actions(form, link(of.stayHref, stay)) })
}

/**
 * The page after signing out. `providerHref` also signs out at the provider. `mayStayValidUntil` is
 * set if the end of the session could not be stored: a copy may be valid until then, in ms.
 */
export function signedOutPage(of: {
  readonly portal: PagePortal
  readonly signInHref: string
  readonly provider?: Pick<Provider, 'title'> | undefined
  readonly providerHref?: string | undefined
  readonly mayStayValidUntil?: number
}): Page {
  const { title, text, notStored, provider, signIn } = texts.signedOut
  const { mayStayValidUntil: end } = of
  const atProvider =
    of.provider && of.providerHref && link(of.providerHref, provider(of.provider.title))
  return page(of, {
    title,
    text: end === undefined ? text : notStored(new Date(end).toUTCString()),
    symbol: end === undefined ? 'check' : 'alert',
    actions: actions(atProvider, link(of.signInHref, signIn)),
  })
}

/** Signed in without access. Under 4 kB with a short link, since checks respond with it. */
export function refusedPage(of: Visit & Record<'switchHref' | 'requestId', string>): Page {
  const { title, text, other } = texts.refused
  const { requestId } = of
  return page(of, {
    ...{ title, text, symbol: 'lock', requestId },
    actions: actions(mainLink(of.switchHref, other)),
  })
}

export function errorPage(of: {
  readonly portal?: PagePortal | undefined
  readonly status: number
  readonly title: string
  readonly text: string
  readonly retryHref?: string | undefined
  readonly requestId: string
}): Page {
  return page(of, {
    title: of.title,
    text: clip(of.text, MAX_TEXT),
    symbol: 'alert',
    actions: of.retryHref && actions(mainLink(of.retryHref, texts.retry)),
    requestId: `${of.requestId} · ${of.status}`,
  })
}

/** The chosen provider is down. `otherHref` is the list of providers, if there are several. */
export function providerDownPage(of: {
  readonly portal: PagePortal
  readonly provider: Pick<Provider, 'title'>
  readonly retryHref: string
  readonly otherHref?: string | undefined
}): Page {
  const { title, text, other } = texts.providerDown
  return page(of, {
    title: title(of.provider.title),
    text,
    symbol: 'unplugged',
    actions: actions(
      mainLink(of.retryHref, texts.retry),
      of.otherHref && link(of.otherHref, other),
    ),
  })
}

interface Card {
  readonly title: string
  readonly text?: string | undefined
  readonly symbol?: SymbolName
  readonly actions?: SafeHtml | '' | undefined
  readonly hasList?: boolean
  readonly requestId?: string
}

function page(
  { portal, profile }: { readonly [key in keyof Visit]?: Visit[key] | undefined },
  { title, text, hasList = false, requestId, ...card }: Card,
): Page {
  return shell({
    title,
    brand: portal?.title ?? texts.brand,
    accent: portal?.accent ?? DEFAULT_ACCENT,
    body: html`${card.symbol && symbol(card.symbol)}
<h1>${title}</h1>
${text && html`<p>${text}</p>`}
${profile && person(portal, profile)}
${card.actions}`,
    hasList,
    footer: requestId && `${texts.requestId} ${requestId}`,
  })
}

/** The name and address of the person. `<bdi>` isolates names that are written right to left. */
function person(portal: PagePortal | undefined, { provider, id, name, email }: Profile): SafeHtml {
  const who = name?.full ?? email?.address ?? id
  const address =
    email && email.address !== who ? html`<bdi>${clip(email.address, MAX_NAME)}</bdi> · ` : ''
  const via = portal?.providers.get(provider)?.title ?? provider
  return html`<div class="person"><span class="initial" aria-hidden="true">${initialOf(who)}</span><p><b><bdi>${clip(who, MAX_NAME)}</bdi></b>${address}${via}</p></div>`
}

function clip(text: string, max: number): string {
  const characters = Array.from(text)
  return characters.length > max ? `${characters.slice(0, max - 1).join('')}…` : text
}

function choice({ title, icon, color, href, failing }: Choice): SafeHtml {
  const note = failing ? html`<small>${texts.signIn.failing}</small>` : ''
  return html`<a class="choice" href="${href}">${tile(icon, color)}<span>${title}${note}</span></a>`
}

function actions(...items: (SafeHtml | '' | undefined)[]): SafeHtml {
  return html`<div class="actions">${items}</div>`
}

function link(href: string, text: string): SafeHtml {
  return html`<a href="${href}">${text}</a>`
}

function mainLink(href: string, text: string): SafeHtml {
  return html`<a class="main" href="${href}">${text}</a>`
}
