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
  own,
  page,
  post,
  type Visit,
} from './pages.ts'

/** The longest host name, with a port. */
const MAX_HOST = 260

/** A client that asks for access on behalf of a person. */
interface Asking {
  /** The host of its ID; undefined if it registered itself, so that nothing about it is proven. */
  readonly clientHost: string | undefined
  /** Whether an operator says who it is. */
  readonly isConfigured: boolean
  /** What it calls itself. */
  readonly name: string | undefined
  /** The host of its redirect URI, or the scheme of an app, as `cursor:`. */
  readonly redirectHost: string
  /** Whether the redirect URI is on this device. */
  readonly isLoopback: boolean
  /** URL of what it wants to use. */
  readonly resource: string
  /** What it may do then, in the words of the configuration. */
  readonly scopes: readonly { readonly name: string; readonly text: OwnText }[]
}

/** Asks a person whether a client may act for them. `action` takes a POST with `decision` and `form`. */
export function consentPage(
  of: Visit & Asking & Readonly<Record<'action' | 'form' | 'switchHref', string>>,
): Page {
  const { language, clientHost, isConfigured, scopes } = of
  const texts = textsIn(language).consent
  const isProven = isConfigured || clientHost !== undefined
  const name = isConfigured ? '' : calledItself(of.name, language)
  const scheme = of.redirectHost.endsWith(':') && of.redirectHost
  const answer = scheme
    ? fill(texts.opens, { scheme: clip(scheme, MAX_NAME) })
    : host(of.redirectHost)
  const known = isConfigured ? clip(of.name ?? '', MAX_NAME) : clientHost
  const who = known ? html`<b>${host(known)}</b>` : ''
  const app: Fact = [texts.app, html`${who}${name}`]
  const goesTo: Fact = [texts.answer, html`<b>${answer}</b>`]
  const words = scopes.map(
    ({ name, text }) => html`<li>${own(text, language)}<small>${name}</small></li>`,
  )
  // What is proven comes first.
  const facts: readonly Fact[] = [
    ...(isProven ? [app, goesTo] : [goesTo, app]),
    [texts.resource, html`<b>${resourceText(of.resource)}</b>`],
    ...(words.length > 0 ? [[texts.scopes, html`<ul role="list">${words}</ul>`] as const] : []),
  ]
  const form = html`
    <input type="hidden" name="form" value="${of.form}">
    <button class="main" name="decision" value="allow">${texts.allow}</button>
    <button name="decision" value="deny">${texts.deny}</button>`
  return page(of, {
    title: texts.title,
    more: html`
      <dl>${facts.map(([label, fact]) => html`<div><dt>${label}</dt><dd>${fact}</dd></div>`)}</dl>
      ${isProven ? '' : html`<p class="notice">${texts.selfRegistered}</p>`}
      ${of.isLoopback ? html`<p class="notice">${texts.loopback}</p>` : ''}`,
    styles: 'consent',
    // Browsers hold the redirects after a form to the policy, those of the client's own pages too.
    formsTo: scheme || (of.isLoopback ? 'http:' : 'https:'),
    actions: actions(post(of.action, form), link(of.switchHref, textsIn(language).refused.other)),
  })
}

type Fact = readonly [label: string, fact: SafeHtml]

/** What a client calls itself, quoted, so that nothing of it is taken for words of the page. */
export function calledItself(name: string | undefined, language: Language): SafeHtml | '' {
  const said = clip(tamed(name ?? ''), MAX_NAME)
  return (
    said && html`<small>${textsIn(language).consent.callsItself} <q><bdi>${said}</bdi></q></small>`
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
