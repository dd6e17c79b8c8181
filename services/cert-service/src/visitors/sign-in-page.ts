import type { Language, Page } from '@gatehouse/service-kit/pages'
import { html } from '@remix-run/html-template'
import { card } from '../pages/card.ts'
import { plain, say } from '../pages/say.ts'

/** @param page - the page to show after signing in; default: the inventory */
export function signInPage(
  lang: Language,
  { isWrong, to: page }: { readonly isWrong: boolean; readonly to?: string | undefined },
): Page {
  const note = isWrong
    ? html`<p class="wrong" id="wrong" role="alert">${say(lang, 'That API key is not valid.')}</p>`
    : ''
  const described = isWrong ? html` aria-invalid="true" aria-describedby="wrong"` : ''
  const to = page === undefined ? '' : html`<input type="hidden" name="to" value="${page}">`
  return card(
    { lang },
    plain(lang, 'Certificates'),
    html`
      <p>${say(lang, 'Enter an API key to see the certificates that it may read. You cannot change anything with it.')}</p>
      <form method="post" action="/">
        ${to}
        <label for="key">${say(lang, 'API key')}</label>
        <input id="key" name="key" type="password" autocomplete="current-password" spellcheck="false"
          maxlength="1024" required autofocus${described}>
        ${note}
        <button class="main">${say(lang, 'Show certificates')}</button>
      </form>`,
  )
}

/** The page of a service without API keys. */
export function tokensOnlyPage(lang: Language, origin: string): Page {
  const command = `curl -H "Authorization: Bearer $TOKEN" ${origin}/api/certificates`
  return card(
    { lang },
    plain(lang, 'Certificates'),
    html`
      <p>${say(lang, 'This service accepts access tokens only, which cannot be entered here. Use one on the command line:')}</p>
      <pre><code>${command}</code></pre>`,
  )
}
