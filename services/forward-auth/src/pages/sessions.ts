import type { Profile } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { deviceOf } from './device.ts'
import { fill, type Language, textsIn, writeTime } from './languages/index.ts'
import { clip, link, MAX_NAME, page, person, post, type Reader } from './pages.ts'

const MAX_SESSIONS = 100
const MAX_HOSTS = 20

/** A session as people see it, with times in ms. */
export interface ShownSession {
  /** What the form that ends it sends as `session`. */
  readonly id: string
  /** Whether the page is read in it: it has no form then, since signing out ends it. */
  readonly isCurrent: boolean
  readonly userAgent: string
  readonly address: string | undefined
  readonly begun: number
  readonly lastSeen: number
  readonly ends: number
  /** Of the apps it was used at. */
  readonly hosts: readonly string[]
  /** Whose it is, where those of everybody are shown. */
  readonly profile?: Profile | undefined
}

/** Sessions, at most 100 of which are shown. */
export interface SessionList {
  readonly sessions: readonly ShownSession[]
  /** Whether there are more than these. */
  readonly hasMore?: boolean | undefined
  /** Takes a POST with `session`. */
  readonly endAction: string
}

/** Sessions in the order they are given. */
export function sessionList(of: Reader & SessionList): SafeHtml {
  const shown = of.sessions.slice(0, MAX_SESSIONS)
  const more = fill(textsIn(of.language).sessions.more, { count: String(shown.length) })
  return html`
    <ul class="sessions" role="list">
      ${shown.map((session, index) => item(session, `session-${index}`, of))}
    </ul>
    ${of.hasMore ? html`<p>${more}</p>` : ''}`
}

function item(session: ShownSession, id: string, of: Reader & SessionList): SafeHtml {
  const { address, hosts, profile } = session
  const texts = textsIn(of.language).sessions
  const shown = hosts.slice(0, MAX_HOSTS)
  const facts = [
    [texts.address, address && isolate(address)],
    [texts.begun, writeTime(of.language, session.begun)],
    [texts.lastSeen, writeTime(of.language, session.lastSeen)],
    [texts.ends, writeTime(of.language, session.ends)],
    [texts.hosts, html`${shown.map(isolate)}${shown.length < hosts.length ? '…' : ''}`],
  ] as const
  const form = html`
    <input type="hidden" name="session" value="${session.id}">
    <button aria-describedby="${id}">${texts.end}</button>`
  return html`
    <li>
      <div id="${id}">
        ${profile && person(of.portal, profile)}
        <b>${device(session.userAgent, of.language)}</b>
        ${session.isCurrent ? html`<mark>${texts.here}</mark>` : ''}
      </div>
      <dl>${facts.map(([name, fact]) => html`<dt>${name}</dt><dd>${fact}</dd>`)}</dl>
      ${session.isCurrent ? '' : post(of.endAction, form)}
    </li>`
}

/** The name of a device, or the words of one that has none. */
function device(userAgent: string, language: Language): SafeHtml {
  const texts = textsIn(language).sessions
  const { browser, system } = deviceOf(userAgent)
  if (browser && system) return html`${fill(texts.device, { browser, system })}`
  return html`${browser ?? system ?? texts.unknown} <small>${isolate(userAgent)}</small>`
}

function isolate(text: string): SafeHtml {
  return html`<bdi>${clip(text, MAX_NAME)}</bdi>`
}

/**
 * The sessions of everybody at the portal, or of the person who was searched for, for administrators.
 * `searchAction` takes a GET with `person`, `endPersonAction` a POST.
 */
export function sessionsPage(
  of: Reader &
    SessionList &
    Record<'searchAction' | 'endPersonAction' | 'accountHref', string> & {
      readonly person?: string | undefined
    },
): Page {
  const texts = textsIn(of.language).sessions
  const endAll = html`<input type="hidden" name="person" value="${of.person}"><button>${texts.endAll}</button>`
  const isFound = of.sessions.length > 0
  return page(of, {
    title: texts.all,
    styles: 'lists',
    actions: html`
      <form class="search" role="search" action="${of.searchAction}">
        <label for="person">${texts.whose}</label>
        <input id="person" name="person" type="search" value="${of.person}">
        <button>${texts.search}</button>
      </form>
      <div class="actions">
        ${of.person && isFound ? post(of.endPersonAction, endAll) : ''}
        ${isFound ? sessionList(of) : html`<p>${texts.none}</p>`}
      </div>
      <div class="actions">
        ${of.person && link(of.searchAction, texts.all)}
        ${link(of.accountHref, texts.title)}
      </div>`,
  })
}
