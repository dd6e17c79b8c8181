import type { Page } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { icon, type Tone } from './notice.ts'
import { page } from './style.ts'

/** A person, or the name of the key that was entered. */
export type VisitorName = { readonly person: string } | { readonly key: string }

/** The end of the top bar. People sign out at the portal, keys here. */
export function who(visitor: VisitorName): SafeHtml {
  if ('person' in visitor) return html`<span class="who muted">${visitor.person}</span>`
  return html`<form class="who" method="post" action="/sign-out"><span class="muted">Key ${visitor.key}</span><button>Sign out</button></form>`
}

/** A page with one small card. The tone of its heading shows how it ended. */
export function card(title: string, body: SafeHtml, tone?: Tone): Page {
  const heading = tone
    ? html`<h1 class="toned ${tone}">${icon(tone)}<span>${title}</span></h1>`
    : html`<h1>${title}</h1>`
  return page({
    title: tabTitle(title),
    main: html`<div class="card small">${heading}${body}</div>`,
  })
}

export function tabTitle(title: string): string {
  return `${title} · Gatehouse`
}

export const toInventory = html`<p><a href="/">Back to the certificates</a></p>`

/** @param of - `to` is the page to show after signing in; default: the inventory */
export function signInPage(of: { readonly isWrong: boolean; readonly to?: string | undefined }) {
  const note = of.isWrong
    ? html`<p class="wrong" id="wrong" role="alert">That API key is not valid.</p>`
    : ''
  const described = of.isWrong ? html` aria-invalid="true" aria-describedby="wrong"` : ''
  const to = of.to === undefined ? '' : html`<input type="hidden" name="to" value="${of.to}">`
  return card(
    'Certificates',
    html`<p>Enter an API key to see the certificates that it may read. You cannot change anything with it.</p>
<form method="post" action="/">${to}<label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false" maxlength="1024" required autofocus${described}>${note}
<button class="main">Show certificates</button></form>`,
  )
}

/** The page of a service without API keys. */
export function tokensOnlyPage(origin: string): Page {
  const command = `curl -H "Authorization: Bearer $TOKEN" ${origin}/api/certificates`
  return card(
    'Certificates',
    html`<p>This service accepts access tokens only, which cannot be entered here. Use one on the command line:</p><pre><code>${command}</code></pre>`,
  )
}
