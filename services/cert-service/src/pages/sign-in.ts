import { type Page, type Problem, prose } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { page } from './style.ts'
import { texts } from './texts.ts'

/** The form that asks for an API key. */
export function signInPage({ isWrong }: { readonly isWrong: boolean }): Page {
  const { text, label, enter, wrong } = texts.signIn
  const note = isWrong ? html`<p class="wrong" id="wrong" role="alert">${wrong}</p>` : ''
  const described = isWrong ? html` aria-invalid="true" aria-describedby="wrong"` : ''
  return card(
    texts.title,
    html`<p>${text}</p>
<form method="post" action="/"><label for="key">${label}</label>
<input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false" maxlength="1024" required autofocus${described}>${note}
<button class="main">${enter}</button></form>`,
  )
}

/** The page of a service without API keys. */
export function tokensOnlyPage(origin: string): Page {
  const command = `curl -H "Authorization: Bearer $TOKEN" ${origin}/api/certificates`
  return card(texts.title, html`<p>${texts.signIn.tokens}</p><pre><code>${command}</code></pre>`)
}

/** An error. */
export function problemPage({ title, detail, requestId }: Problem, action?: string): Page {
  return card(
    title,
    html`${detail ? html`<p>${detail}</p>` : ''}${action ? html`<p>${prose(action)}</p>` : ''}${requestId ? html`<p><code>${requestId}</code></p>` : ''}
<p><a href="/">${texts.back}</a></p>`,
  )
}

function card(title: string, body: SafeHtml): Page {
  const main = html`<div class="card small"><h1>${title}</h1>${body}</div>`
  return page({ title: texts.tab(title), main })
}
