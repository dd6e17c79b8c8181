import { createHash } from 'node:crypto'
import { html, type SafeHtml } from '@remix-run/html-template'

/** The texts and the color of an app. */
export interface App {
  readonly title: string
  readonly accent: 'indigo' | 'teal'
  readonly text: string
}

export interface Person {
  readonly name: string
  /** Further details, the most important first. */
  readonly about: readonly string[]
}

/** A header, without its value if that is a secret. */
export type Header = readonly [name: string, value: string | undefined]

export interface Content {
  readonly app: App
  readonly person: Person
  readonly identity: readonly Header[]
  readonly others: readonly Header[]
  readonly links: readonly { readonly href: string; readonly text: string }[]
}

const GATE = 'M4 21V11a8 8 0 0 1 16 0v10M9 21v-9a3 3 0 0 1 6 0v9M2 21h20'

const STYLE = `
:root{color-scheme:light dark;--page:#f4f5f8;--card:#fff;--ink:#15171c;--muted:#585f6d;--line:#d5d9e2;--on:#fff}
.indigo{--accent:#4256d0}
.teal{--accent:#0f766e}
@media(prefers-color-scheme:dark){:root{--page:#0c0e12;--card:#16191f;--ink:#f1f3f6;--muted:#a4abb9;--line:#323843;--on:#0c0e12}.indigo{--accent:#8f9cf0}.teal{--accent:#4fd1c0}}
*{box-sizing:border-box;margin:0}
body{min-height:100vh;padding:2rem 1rem 10vh;display:flex;flex-direction:column;align-items:center;gap:1.5rem;background:radial-gradient(50rem 26rem at 50% 0,color-mix(in srgb,var(--accent) 16%,transparent),transparent) var(--page);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,.person{display:flex;align-items:center;gap:.75rem}
header,a,h1,h2,dt,.person span,summary{font-weight:600}
main{width:min(100%,44rem);padding:2rem 1.75rem;border:1px solid var(--line);border-radius:1.25rem;background:var(--card);box-shadow:0 1.5rem 3rem -1.5rem #0003}
h1{font-size:1.5rem;line-height:1.25;letter-spacing:-.015em}
h2,summary{margin-top:2rem;font-size:1rem}
p,dd i,.about{color:var(--muted)}
.person+p{margin-top:1.25rem}
.person span{flex:none;width:3.25rem;border-radius:50%;background:var(--accent);color:var(--on);font-size:1.25rem;line-height:3.25rem;text-align:center}
.about{font-size:.9rem}
svg{width:1.5rem;fill:none;stroke:var(--accent);stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
dl{margin-top:.75rem;border-top:1px solid var(--line);font:.8125rem/1.5 ui-monospace,monospace}
dl div{display:grid;grid-template-columns:14rem 1fr;gap:0 1rem;padding:.5rem 0;border-bottom:1px solid var(--line)}
.identity dt{color:var(--accent)}
nav{display:grid;grid-template-columns:repeat(auto-fit,minmax(8rem,1fr));gap:.75rem;margin-top:1.75rem}
a{display:flex;min-height:3.25rem;padding:.6rem 1rem;align-items:center;justify-content:center;border:1px solid var(--line);border-radius:.75rem;color:inherit;text-align:center;text-decoration:none}
a:first-child{background:var(--accent);border-color:transparent;color:var(--on)}
a:hover{border-color:currentColor}
summary{cursor:pointer}
:focus-visible{outline:3px solid var(--accent);outline-offset:3px;border-radius:.25rem}
@media(max-width:36rem){nav,dl div{grid-template-columns:1fr}}
`.replaceAll('\n', '')

/** The hash of the inline style, for the content security policy. */
export const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')

/** Renders the page, which needs no script and no other resources. */
export function page({ app, person, identity, others, links }: Content): string {
  const { name, about } = person
  const initial = /[\p{L}\p{N}]/u.exec(name)?.[0].toUpperCase() ?? '?'
  return String(html`<!doctype html>
<html lang="en" class="${app.accent}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>${app.title} · Gatehouse demo</title>
<link rel="icon" href="data:,">
${html.raw`<style>${STYLE}</style>`}
</head>
<body>
<header><svg viewBox="0 0 24 24" aria-hidden="true"><path d="${GATE}"/></svg>${app.title}</header>
<main>
<div class="person"><span aria-hidden="true">${initial}</span><div><h1>Hello, <bdi>${name}</bdi></h1><div class="about">${about.join(' · ')}</div></div></div>
<p>${app.text}</p>
<nav aria-label="Where to go">${links.map(({ href, text }) => html`<a href="${href}">${text}</a>`)}</nav>
<h2>Who you are</h2>
${list(identity, 'identity')}
<details><summary>All other headers of this request</summary>${list(others)}</details>
</main>
</body>
</html>
`)
}

function list(headers: readonly Header[], kind = ''): SafeHtml {
  const rows = headers.map(
    ([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? html`<i>hidden</i>`}</dd></div>`,
  )
  return html`<dl class="${kind}">${rows}</dl>`
}
