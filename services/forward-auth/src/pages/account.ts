import { toText } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { Image } from './images.ts'
import { fill, textsIn } from './languages.ts'
import { imagesAt, initial, link, mainLink, page, post, type Reader, type Visit } from './pages.ts'
import { agentList, type SessionList, sessionList } from './sessions.ts'

/** An app that the person may open. */
interface ShownApp {
  readonly name: string
  readonly url: URL
  readonly icon?: Pick<Image, 'name'> | undefined
}

interface AppSearch {
  readonly text: string
  readonly total: number
}

/** The sessions and agents of the person, and how they end them. */
interface OwnSessions extends SessionList {
  /** Takes a POST that ends all sessions but the current one. */
  readonly othersAction: string
  /** Takes a POST that ends all sessions. */
  readonly everywhereAction: string
}

/**
 * Shows who is signed in, their apps, where they came from, their sessions and agents. `apps` is undefined where
 * no app is known, `ownSessions` where sessions cannot be listed.
 */
export function accountPage(
  view: Visit & {
    readonly apps?: readonly ShownApp[] | undefined
    /** The text of the search for apps, and how many there are, if they are many. */
    readonly search?: AppSearch | undefined
    /** The validated URL of the page before. */
    readonly cameFrom?: URL | undefined
    readonly ownSessions?: OwnSessions | undefined
    /** The calls that wait for the person. */
    readonly calls?: { readonly href: string; readonly count: number } | undefined
    /** The sessions of everybody, for administrators. */
    readonly allSessionsHref?: string | undefined
  },
): Page {
  const { signedIn, sessions, calls: texts } = textsIn(view.language)
  const { portalUrl, cameFrom, ownSessions, calls, allSessionsHref } = view
  const otherSessions = ownSessions?.sessions.some(({ isCurrent }) => !isCurrent)
    ? ownSessions
    : undefined
  return page(view, {
    title: signedIn.title,
    symbol: 'check',
    styles: ownSessions || view.search ? 'lists' : undefined,
    hasImages: view.apps?.some(({ icon }) => icon),
    offersHelp: view.apps?.length === 0 && !view.search,
    actions: html`
      <div class="actions pair">
        ${link(`${portalUrl}/profile`, signedIn.profile)}
        ${link(`${portalUrl}/logout`, signedIn.signOut)}
      </div>
      <div class="actions">
        ${calls && link(calls.href, fill(texts.count, { count: String(calls.count) }))}
        ${cameFrom && mainLink(cameFrom.href, fill(signedIn.back, { host: cameFrom.host }))}
      </div>
      ${view.apps && appList(view.apps, view.search, view)}
      ${
        ownSessions &&
        html`
          <section class="actions" aria-labelledby="sessions">
            <h2 id="sessions">${sessions.title}</h2>
            ${sessionList({ ...view, ...ownSessions })}
          </section>
          ${agentList({ ...view, ...ownSessions })}`
      }
      <div class="actions">
        ${otherSessions && post(otherSessions.othersAction, html`<button>${sessions.endOthers}</button>`)}
        ${otherSessions && post(otherSessions.everywhereAction, html`<button>${sessions.everywhere}</button>`)}
        ${allSessionsHref && link(allSessionsHref, sessions.everybody)}
      </div>`,
  })
}

/** The profile as text, which programs get without the page. */
export function profilePage(view: Visit): Page {
  const { profile: title, profileText: text } = textsIn(view.language).signedIn
  const content = html`<pre>${toText(view.profile)}</pre>`
  return page({ ...view, profile: undefined }, { title, text, content, isInside: true })
}

function appList(
  apps: readonly ShownApp[],
  search: AppSearch | undefined,
  { language, portalUrl }: Reader,
): SafeHtml {
  const { signedIn: texts, sessions } = textsIn(language)
  if (apps.length === 0 && !search) return html`<p class="actions">${texts.noApps}</p>`
  const form =
    search &&
    html`
      <form class="find" role="search">
        <label for="app">${texts.findApp}</label>
        <input id="app" name="app" type="search" value="${search.text}">
        <button>${sessions.search}</button>
      </form>`
  const total = search && search.total !== apps.length && String(search.total)
  return html`
    <nav class="actions" aria-labelledby="apps">
      <h2 id="apps">${texts.apps}</h2>
      ${form}
      ${apps.length > 0 ? apps.map((app) => appLink(app, imagesAt(portalUrl))) : html`<p>${texts.noMatch}</p>`}
      ${total && link('?app=', fill(texts.allApps, { total }))}
    </nav>`
}

function appLink({ name, url, icon }: ShownApp, imagesUrl: string): SafeHtml {
  const picture = icon ? html`<img src="${imagesUrl}${icon.name}" alt="">` : initial(name)
  const host = name === url.host ? '' : html`<small>${url.host}</small>`
  return html`
    <a class="choice" href="${url.href}">
      ${picture}
      <span><bdi>${name}</bdi>${host}</span>
    </a>`
}
