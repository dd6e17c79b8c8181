import { toText } from '@gatehouse/profile'
import type { Page } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import type { Image } from './images.ts'
import { fill, textsIn } from './languages.ts'
import { initial, link, mainLink, page, post, type Reader, type Visit } from './pages.ts'
import { agentList, type SessionList, sessionList } from './sessions.ts'

/** An app that the person may open. */
interface ShownApp {
  readonly name: string
  readonly url: URL
  readonly icon?: Pick<Image, 'name'> | undefined
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
 * no app is known, `own` where sessions cannot be listed.
 */
export function accountPage(
  of: Visit & {
    readonly logoutHref: string
    readonly apps?: readonly ShownApp[] | undefined
    /** Validated. */
    readonly cameFrom?: URL | undefined
    readonly own?: OwnSessions | undefined
    /** The sessions of everybody, for administrators. */
    readonly allSessionsHref?: string | undefined
  },
): Page {
  const { signedIn, sessions } = textsIn(of.language)
  const { cameFrom, own, allSessionsHref } = of
  const others = own?.sessions.some(({ isCurrent }) => !isCurrent) ? own : undefined
  return page(of, {
    title: signedIn.title,
    symbol: 'check',
    styles: own && 'lists',
    hasImages: of.apps?.some(({ icon }) => icon),
    actions: html`
      ${of.apps && appList(of.apps, of)}
      <div class="actions">
        ${cameFrom && mainLink(cameFrom.href, fill(signedIn.back, { host: cameFrom.host }))}
        <details>
          <summary>${signedIn.profile}</summary>
          <pre>${toText(of.profile)}</pre>
        </details>
      </div>
      ${
        own &&
        html`
          <section class="actions" aria-labelledby="sessions">
            <h2 id="sessions">${sessions.title}</h2>
            ${sessionList({ ...of, ...own })}
          </section>
          ${agentList({ ...of, ...own })}`
      }
      <div class="actions">
        ${others && post(others.othersAction, html`<button>${sessions.others}</button>`)}
        ${link(of.logoutHref, signedIn.signOut)}
        ${others && post(others.everywhereAction, html`<button>${sessions.everywhere}</button>`)}
        ${allSessionsHref && link(allSessionsHref, sessions.all)}
      </div>`,
  })
}

function appList(apps: readonly ShownApp[], { language, imagesUrl }: Reader): SafeHtml {
  const { apps: title, noApps } = textsIn(language).signedIn
  if (apps.length === 0) return html`<p class="actions">${noApps}</p>`
  return html`
    <nav class="actions" aria-labelledby="apps">
      <h2 id="apps">${title}</h2>
      ${apps.map((app) => appLink(app, imagesUrl))}
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
