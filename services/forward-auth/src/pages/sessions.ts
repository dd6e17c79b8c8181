import type { Profile } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { calledItself, host, resourceText } from './consent.ts'
import { deviceOf } from './device.ts'
import { fill, type Language, textsIn, writeTime } from './languages.ts'
import { clip, link, MAX_NAME, page, person, post, type Reader } from './pages.ts'

/** Sessions, or agents, of a page. */
export const MAX_SHOWN = 100
/** Hosts of a session, or scopes of an agent. */
const MAX_NAMES = 20

/** What people see of a session or an agent, with times in ms. */
interface Shown {
  /** What the form that ends it sends as `session`. */
  readonly id: string
  readonly begun: number
  readonly ends: number
  /** Whose it is, where those of everybody are shown. */
  readonly profile?: Profile | undefined
}

export interface ShownSession extends Shown {
  /** Whether the page is read in it: it has no form then, since signing out ends it. */
  readonly isCurrent: boolean
  readonly userAgent: string
  readonly address: string | undefined
  readonly lastSeen: number
  /** Of the apps it was used at. */
  readonly hosts: readonly string[]
}

/** A client that may act for a person. */
export interface ShownAgent extends Shown {
  /** The host of its ID; undefined if it registered itself. */
  readonly clientHost: string | undefined
  /** What it calls itself. */
  readonly name: string | undefined
  /** URLs of what it may use. */
  readonly resources: readonly string[]
  readonly scopes: readonly string[]
  /** Undefined if there was none. */
  readonly lastCall: number | undefined
}

/** Sessions and agents. Of each, {@link MAX_SHOWN} are shown, and whether there are more. */
export interface SessionList {
  readonly sessions: readonly ShownSession[]
  readonly agents?: readonly ShownAgent[] | undefined
  /** Takes a POST with `session`. */
  readonly endAction: string
}

/** Sessions in the order they are given. */
export function sessionList(of: Reader & SessionList): SafeHtml {
  const { more } = textsIn(of.language).sessions
  return list(of.sessions, more, (one, index) => sessionItem(one, `session-${index}`, of))
}

/** Agents in the order they are given, with a heading; nothing if there are none. */
export function agentList(of: Reader & SessionList): SafeHtml | '' {
  const { agents = [], language } = of
  if (agents.length === 0) return ''
  const { title, more } = textsIn(language).agents
  return html`
    <section class="actions" aria-labelledby="agents">
      <h2 id="agents">${title}</h2>
      ${list(agents, more, (one, index) => agentItem(one, `agent-${index}`, of))}
    </section>`
}

function list<T>(
  all: readonly T[],
  more: string,
  show: (one: T, index: number) => SafeHtml,
): SafeHtml {
  const items = all.slice(0, MAX_SHOWN).map(show)
  return html`
    <ul class="sessions" role="list">${items}</ul>
    ${all.length > MAX_SHOWN ? html`<p>${fill(more, { count: String(MAX_SHOWN) })}</p>` : ''}`
}

function sessionItem(session: ShownSession, id: string, of: Reader & SessionList): SafeHtml {
  const { address, isCurrent } = session
  const texts = textsIn(of.language).sessions
  const facts: Facts = [
    [texts.address, address && isolate(address)],
    [texts.begun, writeTime(of.language, session.begun)],
    [texts.lastSeen, writeTime(of.language, session.lastSeen)],
    [texts.ends, writeTime(of.language, session.ends)],
    [texts.hosts, isolateAll(session.hosts)],
  ]
  const head = html`
    <b>${device(session.userAgent, of.language)}</b>
    ${isCurrent ? html`<mark>${texts.here}</mark>` : ''}`
  return item({ id, of, one: session, head, facts, end: isCurrent ? undefined : texts.end })
}

function agentItem(agent: ShownAgent, id: string, of: Reader & SessionList): SafeHtml {
  const { clientHost } = agent
  const { agents: texts, sessions } = textsIn(of.language)
  const facts: Facts = [
    [
      texts.resource,
      html`${agent.resources.slice(0, MAX_NAMES).map((url) => html`<div>${resourceText(url)}</div>`)}`,
    ],
    [texts.scopes, isolateAll(agent.scopes)],
    [texts.begun, writeTime(of.language, agent.begun)],
    [texts.lastCall, agent.lastCall === undefined ? '–' : writeTime(of.language, agent.lastCall)],
    [sessions.ends, writeTime(of.language, agent.ends)],
  ]
  const head = html`
    <b>${clientHost ? host(clientHost) : texts.selfRegistered}</b>
    ${calledItself(agent.name, of.language)}`
  return item({ id, of, one: agent, head, facts, end: texts.end })
}

type Facts = readonly (readonly [name: string, fact: SafeHtml | string | undefined])[]

/** What there is of one session or agent, with a button that ends it. */
function item(shown: {
  readonly id: string
  readonly of: Reader & SessionList
  readonly one: Shown
  readonly head: SafeHtml
  readonly facts: Facts
  readonly end: string | undefined
}): SafeHtml {
  const { id, of, one, head, facts, end } = shown
  const form = html`
    <input type="hidden" name="session" value="${one.id}">
    <button aria-describedby="${id}">${end}</button>`
  return html`
    <li>
      <div id="${id}">
        ${one.profile && person(of.portal, one.profile)}
        ${head}
      </div>
      <dl>${facts.map(([name, fact]) => html`<dt>${name}</dt><dd>${fact}</dd>`)}</dl>
      ${end && post(of.endAction, form)}
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

function isolateAll(texts: readonly string[]): SafeHtml {
  const shown = texts.slice(0, MAX_NAMES)
  return html`${shown.map(isolate)}${shown.length < texts.length ? '…' : ''}`
}

/**
 * The sessions and agents of everybody at the portal, or of one person, for administrators.
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
  const hasSessions = of.sessions.length > 0
  const isFound = hasSessions || of.agents?.length
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
        ${hasSessions ? sessionList(of) : html`<p>${texts.none}</p>`}
      </div>
      ${agentList(of)}
      <div class="actions">
        ${of.person && link(of.searchAction, texts.all)}
        ${link(of.accountHref, texts.title)}
      </div>`,
  })
}
