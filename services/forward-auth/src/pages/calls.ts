import type { Profile } from '@gatehouse/profile'
import { type Page, writeTime } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { calledItself, host, resourceText } from './consent.ts'
import { fill, type Language, textsIn } from './languages.ts'
import { actions, link, page, person, post, type Visit } from './pages.ts'
import { type ArgumentLine, type VisibleText, visibleText } from './visible.ts'

const MINUTE = 60_000

/** A call of a tool as the person who approves it sees it. */
export interface ShownCall {
  /** URL of the MCP server. */
  readonly resource: string
  readonly tool: string
  readonly arguments: readonly ArgumentLine[]
  /** The proven host of the client, or name of a program; undefined if nothing about it is proven. */
  readonly clientHost: string | undefined
  /** The name that it gives itself. */
  readonly clientName: string | undefined
  readonly begun: number
  readonly until: number
  /** The person whom the agent acts for. */
  readonly principal: Profile | undefined
}

/** The decision about a call that does not wait any more. */
export type CallOutcome = 'allowed' | 'denied' | 'ended' | 'expired'

export interface CallForm {
  readonly action: string
  readonly form: string
  /** The time for which further calls can be allowed, in ms. */
  readonly remember: number | undefined
  /** Whether an agent makes the call, which can be ended. */
  readonly isOfAgent: boolean
  /** Whether the answer may lead to the provider, for another sign-in. */
  readonly hasStepUp: boolean
}

/** Asks a person whether a call may be made, or says what has become of it. */
export function callPage(
  view: Visit & {
    readonly call: ShownCall
    readonly result: CallForm | CallOutcome
    readonly listHref: string
  },
): Page {
  const { call, language, result } = view
  const { calls: texts, consent, agents } = textsIn(language)
  const { clientHost, principal } = call
  const app = html`<b>${clientHost ? host(clientHost) : agents.selfRegistered}</b>`
  const lines = call.arguments.map(
    ([name, argument]) => html`<li><small>${visible(name)}</small>${visible(argument)}</li>`,
  )
  const facts = [
    [texts.tool, html`<b>${visible(visibleText(call.tool))}</b>`],
    [texts.server, html`<b>${resourceText(call.resource)}</b>`],
    [consent.app, html`${app}${calledItself(call.clientName, language)}`],
    ...(principal ? [[texts.principal, person(view.portal, principal)]] : []),
    [texts.arguments, lines.length > 0 ? html`<ul role="list">${lines}</ul>` : '–'],
    [texts.begun, writeTime(language, call.begun)],
    [texts.until, writeTime(language, call.until)],
  ]
  const isOpen = typeof result !== 'string'
  return page(view, {
    title: isOpen ? texts.question : texts[result],
    text: isOpen ? undefined : texts[`${result}Text`],
    content: html`<dl>${facts.map(([label, fact]) => html`<div><dt>${label}</dt><dd>${fact}</dd></div>`)}</dl>`,
    styles: 'consent',
    isInside: true,
    formsTo: isOpen && result.hasStepUp ? 'https:' : undefined,
    actions: actions(
      isOpen ? decisionForm(result, language) : '',
      link(view.listHref, texts.title),
    ),
  })
}

function decisionForm(
  { action, form, remember, isOfAgent }: CallForm,
  language: Language,
): SafeHtml {
  const { calls, consent } = textsIn(language)
  const label = fill(calls.remember, { minutes: String(Math.round((remember ?? 0) / MINUTE)) })
  return post(
    action,
    html`
      <input type="hidden" name="form" value="${form}">
      <button class="main" name="decision" value="once">${calls.once}</button>
      ${remember && html`<button name="decision" value="remember">${label}</button>`}
      <button name="decision" value="deny">${consent.deny}</button>
      ${isOfAgent ? html`<button name="decision" value="end">${calls.end}</button>` : ''}`,
  )
}

/** A text whose hidden parts are named. */
function visible(text: VisibleText): SafeHtml {
  const parts = text.map((part, i) => (i % 2 === 0 ? part : html`<mark>${part}</mark>`))
  return html`<bdi dir="ltr">${parts}</bdi>`
}

/** The calls that wait for the person. */
export function callsPage(
  view: Visit & {
    readonly calls: readonly (Pick<ShownCall, 'tool' | 'resource'> & { readonly href: string })[]
  },
): Page {
  const { calls: texts } = textsIn(view.language)
  const links = view.calls.map(({ tool, resource, href }) => {
    const server = html`<small>${resourceText(resource)}</small>`
    return html`<a class="choice" href="${href}"><span>${visible(visibleText(tool))}${server}</span></a>`
  })
  return page(view, {
    title: texts.title,
    text: links.length > 0 ? undefined : texts.none,
    isInside: true,
    actions: links.length > 0 ? actions(...links) : '',
  })
}
