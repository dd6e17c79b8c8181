import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { fill, type Language, textsIn } from './languages.ts'
import {
  actions,
  clip,
  link,
  MAX_NAME,
  MAX_TEXT,
  type OwnText,
  ownParagraph,
  page,
  post,
  type Visit,
} from './pages.ts'

/** The longest host name, with a port. */
const MAX_HOST = 260

/** A client that asks for access on behalf of a person. */
interface ConsentRequest {
  /** The host of its ID; undefined if it registered itself, so that nothing about it is proven. */
  readonly clientHost: string | undefined
  /** Whether an operator says who it is. */
  readonly isConfigured: boolean
  /** The name that it gives itself. */
  readonly name: string | undefined
  /** The host of its redirect URI, or the scheme of an app, as `cursor:`. */
  readonly redirectHost: string
  /** Whether the redirect URI is on this device. */
  readonly isLoopback: boolean
  readonly resource: string
  /** The requested scopes, in the words of the configuration. */
  readonly scopes: readonly { readonly name: string; readonly text: OwnText }[]
}

/** Asks a person whether a client may act for them. `action` takes a POST with `decision` and `form`. */
export function consentPage(
  view: Visit & ConsentRequest & Readonly<Record<'action' | 'form' | 'switchHref', string>>,
): Page {
  const { language, clientHost, isConfigured, scopes } = view
  const texts = textsIn(language).consent
  const isProven = isConfigured || clientHost !== undefined
  const name = isConfigured ? '' : calledItself(view.name, language)
  const scheme = view.redirectHost.endsWith(':') && view.redirectHost
  const answer = scheme
    ? fill(texts.opens, { scheme: clip(scheme, MAX_NAME) })
    : host(view.redirectHost)
  const provenName = isConfigured ? clip(view.name ?? '', MAX_NAME) : clientHost
  const identity = provenName ? html`<b>${host(provenName)}</b>` : ''
  const app: Fact = [texts.app, html`${identity}${name}`]
  const goesTo: Fact = [texts.answer, html`<b>${answer}</b>`]
  const words = scopes.map(
    ({ name, text }) => html`<li>${ownParagraph(text, language)}<small>${name}</small></li>`,
  )
  // Proven facts come first.
  const facts: readonly Fact[] = [
    ...(isProven ? [app, goesTo] : [goesTo, app]),
    [texts.resource, html`<b>${resourceText(view.resource)}</b>`],
    ...(words.length > 0 ? [[texts.scopes, html`<ul role="list">${words}</ul>`] as const] : []),
  ]
  const form = html`
    <input type="hidden" name="form" value="${view.form}">
    <button class="main" name="decision" value="allow">${texts.allow}</button>
    <button name="decision" value="deny">${texts.deny}</button>`
  return page(view, {
    title: texts.title,
    content: html`
      <dl>${facts.map(([label, fact]) => html`<div><dt>${label}</dt><dd>${fact}</dd></div>`)}</dl>
      ${isProven ? '' : html`<p class="notice">${texts.selfRegistered}</p>`}
      ${view.isLoopback ? html`<p class="notice">${texts.loopback}</p>` : ''}`,
    styles: 'consent',
    isInside: true,
    // Browsers hold the redirects after a form to the policy, those of the client's own pages too.
    formsTo: scheme || (view.isLoopback ? 'http:' : 'https:'),
    actions: actions(
      post(view.action, form),
      link(view.switchHref, textsIn(language).refused.switchAccount),
    ),
  })
}

type Fact = readonly [label: string, fact: SafeHtml]

/** Quotes the name that a client gives itself, so that nobody takes it for words of the page. */
export function calledItself(name: string | undefined, language: Language): SafeHtml | '' {
  const quote = clip(tamed(name ?? ''), MAX_NAME)
  return (
    quote &&
    html`<small>${textsIn(language).consent.callsItself} <q><bdi>${quote}</bdi></q></small>`
  )
}

/** A text that stays within its quotes and its line: it has no quotes, turns, breaks or towers of accents. */
function tamed(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Z}]+/gu, ' ')
    .replace(/\p{C}/gu, '')
    .replace(/[\p{Pi}\p{Pf}„‚"]/gu, "'")
    .replace(/(\p{M}{2})\p{M}+/gu, '$1')
    .trim()
}

/** A host. Whose it is, its end says: one that is too long loses its beginning. */
export function host(text: string): SafeHtml {
  return html`<bdi>${text.length > MAX_HOST ? `…${text.slice(-MAX_HOST)}` : text}</bdi>`
}

/** The host and path of a resource. */
export function resourceText(url: string): SafeHtml {
  return html`<bdi>${clip(url.replace(/^https:\/\/|\/$/g, ''), MAX_TEXT)}</bdi>`
}
