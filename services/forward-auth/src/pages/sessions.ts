import type { Profile } from '@gatehouse/profile'
import { type Page, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { calledItself, host, resourceText } from './consent.ts'
import { deviceOf } from './device.ts'
import { fill, type Language, textsIn } from './languages.ts'
import { actions, clip, link, MAX_NAME, page, person, post, type Reader } from './pages.ts'

/** The maximum number of sessions, or agents, on a page. */
export const MAX_SHOWN = 100
/** Hosts of a session, or scopes of an agent. */
const MAX_NAMES = 20

/** The members of a session or an agent that people see, with times in ms. */
interface ListEntry {
  /** The value of `session` in the form that ends it. */
  readonly id: string
  readonly begun: number
  readonly ends: number
  /** The person, where the sessions of everybody are shown. */
  readonly profile?: Profile | undefined
}

export interface ShownSession extends ListEntry {
  /** Whether the page is read in it: it has no form then, since signing out ends it. */
  readonly isCurrent: boolean
  readonly userAgent: string
  readonly address: string | undefined
  readonly lastSeen: number
  /** The hosts of the apps where it was used. */
  readonly hosts: readonly string[]
}

/** A client that may act for a person. */
export interface ShownAgent extends ListEntry {
  /** The host of its ID; undefined if it registered itself. */
  readonly clientHost: string | undefined
  /** The name that it gives itself. */
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

type ListView = Reader & SessionList

/** Sessions in the order they are given. */
export function sessionList(view: ListView): SafeHtml {
  const { onlyNewest } = textsIn(view.language).sessions
  return list(view.sessions, onlyNewest, (session, index) =>
    sessionItem(session, `session-${index}`, view),
  )
}

/** Agents in the order they are given, with a heading; nothing if there are none. */
export function agentList(view: ListView): SafeHtml | '' {
  const { agents = [], language } = view
  if (agents.length === 0) return ''
  const { title, onlyNewest } = textsIn(language).agents
  return html`
    <section class="actions" aria-labelledby="agents">
      <h2 id="agents">${title}</h2>
      ${list(agents, onlyNewest, (agent, index) => agentItem(agent, `agent-${index}`, view))}
    </section>`
}

function list<T>(
  entries: readonly T[],
  onlyNewest: string,
  show: (entry: T, index: number) => SafeHtml,
): SafeHtml {
  const items = entries.slice(0, MAX_SHOWN).map(show)
  return html`
    <ul class="sessions" role="list">${items}</ul>
    ${entries.length > MAX_SHOWN ? html`<p>${fill(onlyNewest, { count: String(MAX_SHOWN) })}</p>` : ''}`
}

function sessionItem(session: ShownSession, id: string, view: ListView): SafeHtml {
  const { address, isCurrent } = session
  const texts = textsIn(view.language).sessions
  const facts: Facts = [
    [texts.address, address && isolate(address)],
    [texts.begun, writeTime(view.language, session.begun)],
    [texts.lastSeen, writeTime(view.language, session.lastSeen)],
    [texts.ends, writeTime(view.language, session.ends)],
    [texts.hosts, isolateAll(session.hosts)],
  ]
  const head = html`
    <b>${device(session.userAgent, view.language)}</b>
    ${isCurrent ? html`<mark>${texts.current}</mark>` : ''}`
  return item({ id, view, entry: session, head, facts, end: isCurrent ? undefined : texts.end })
}

function agentItem(agent: ShownAgent, id: string, view: ListView): SafeHtml {
  const { clientHost } = agent
  const { agents: texts, sessions } = textsIn(view.language)
  const facts: Facts = [
    [
      texts.resource,
      html`${agent.resources.slice(0, MAX_NAMES).map((url) => html`<div>${resourceText(url)}</div>`)}`,
    ],
    [texts.scopes, isolateAll(agent.scopes)],
    [texts.begun, writeTime(view.language, agent.begun)],
    [texts.lastCall, agent.lastCall === undefined ? '–' : writeTime(view.language, agent.lastCall)],
    [sessions.ends, writeTime(view.language, agent.ends)],
  ]
  const head = html`
    <b>${clientHost ? host(clientHost) : texts.selfRegistered}</b>
    ${calledItself(agent.name, view.language)}`
  return item({ id, view, entry: agent, head, facts, end: texts.end })
}

type Facts = readonly (readonly [name: string, fact: SafeHtml | string | undefined])[]

/** Shows one session or agent, with a button that ends it. */
function item(options: {
  readonly id: string
  readonly view: ListView
  readonly entry: ListEntry
  readonly head: SafeHtml
  readonly facts: Facts
  readonly end: string | undefined
}): SafeHtml {
  const { id, view, entry, head, facts, end } = options
  const form = html`
    <input type="hidden" name="session" value="${entry.id}">
    <button aria-describedby="${id}">${end}</button>`
  return html`
    <li>
      <div id="${id}">
        ${entry.profile && person(view.portal, entry.profile)}
        ${head}
      </div>
      <dl>${facts.map(([name, fact]) => html`<dt>${name}</dt><dd>${fact}</dd>`)}</dl>
      ${end && post(view.endAction, form)}
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
  const ellipsis = texts.length > MAX_NAMES ? '…' : ''
  return html`${texts.slice(0, MAX_NAMES).map(isolate)}${ellipsis}`
}

/**
 * The sessions and agents of everybody at the portal, or of one person, for administrators.
 * `searchAction` takes a GET with `person`, `endPersonAction` a POST.
 */
export function sessionsPage(
  view: ListView &
    Record<'searchAction' | 'endPersonAction', string> & {
      readonly person?: string | undefined
    },
): Page {
  const texts = textsIn(view.language).sessions
  const endAll = html`<input type="hidden" name="person" value="${view.person}"><button>${texts.endAll}</button>`
  const hasSessions = view.sessions.length > 0
  const isFound = hasSessions || view.agents?.length
  return page(view, {
    title: texts.everybody,
    styles: 'lists',
    isInside: true,
    actions: html`
      <form class="search" role="search" action="${view.searchAction}">
        <label for="person">${texts.searchLabel}</label>
        <input id="person" name="person" type="search" value="${view.person}">
        <button>${texts.search}</button>
      </form>
      <div class="actions">
        ${view.person && isFound ? post(view.endPersonAction, endAll) : ''}
        ${hasSessions ? sessionList(view) : html`<p>${texts.none}</p>`}
      </div>
      ${agentList(view)}
      ${view.person && actions(link(view.searchAction, texts.everybody))}`,
  })
}
