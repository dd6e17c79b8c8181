import { createHash } from 'node:crypto'
import type { Person } from './people.ts'

const STYLE = `
:root { color-scheme: light dark; --ink: #1c1b22; --dim: #5d5a6b; --paper: #f4f3f8; --card: #fff; --line: #d9d6e3; --mark: #5b3fd1 }
@media (prefers-color-scheme: dark) { :root { --ink: #efedf6; --dim: #aaa6ba; --paper: #15141b; --card: #201e29; --line: #3a3748; --mark: #b3a1ff } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif }
main { width: 100%; max-width: 23rem }
header { margin: 0 0 .5rem; color: var(--mark); font-size: .8125rem; font-weight: 600; letter-spacing: .06em; text-transform: uppercase }
h1 { margin: 0 0 .25rem; font-size: 1.5rem; line-height: 1.25; text-wrap: balance }
p { margin: 0 0 1.5rem; color: var(--dim); overflow-wrap: anywhere }
form { display: grid; gap: .75rem }
button { display: flex; gap: .875rem; align-items: center; width: 100%; padding: .875rem 1rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card); color: inherit; font: inherit; text-align: left; cursor: pointer }
button:hover { border-color: var(--mark) }
button:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px }
button small { display: block; color: var(--dim) }
.face { flex: none; display: grid; place-items: center; width: 2.5rem; height: 2.5rem; border-radius: 50%; background: var(--mark); color: var(--card); font-weight: 600 }
`

/** Allows no script and no other resources. Forms may lead back to any application. */
export const PAGE_HEADERS = {
  'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; frame-ancestors 'none'`,
}

/** Renders the choice of people. */
export function signInPage(people: Iterable<readonly [id: string, person: Person]>): string {
  const buttons = Array.from(people, ([id, { name, email, groups }]) => {
    const about = `${email} · ${groups.join(', ')}`
    return `<button name="account" value="${escapeHtml(id)}"><span class="face" aria-hidden="true">${escapeHtml(name.slice(0, 1))}</span><span>${escapeHtml(name)}<small>${escapeHtml(about)}</small></span></button>`
  })
  return page(
    'Sign in as',
    'This identity provider is for the demo. It does not ask for a password.',
    `<form method="post">${buttons.join('')}</form>`,
  )
}

/** `form` is the form that oidc-provider expects. */
export function signOutPage(form: string): string {
  return page(
    'Sign out here too?',
    'You are already signed out of the application.',
    `${form}<button form="op.logoutForm" name="logout" value="yes">Yes, sign me out</button>`,
  )
}

export function signedOutPage(): string {
  return page('You are signed out', 'You can close this window.')
}

export function errorPage(error: Readonly<Record<string, unknown>>): string {
  return page('Something went wrong', Object.values(error).map(String).join(': '))
}

/** `body` is HTML, the other values are text. */
function page(title: string, text: string, body = ''): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Demo identity provider</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<header>Demo identity provider</header>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(text)}</p>
${body}
</main>
</body>
</html>`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
