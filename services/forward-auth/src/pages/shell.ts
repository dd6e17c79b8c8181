import { type Page, type PageStyle, pageOf, styleOf } from '@gatehouse/service-kit'
import { html, type SafeHtml } from '@remix-run/html-template'
import { LRUCache } from 'lru-cache'
import { standOut, textOn } from './colors.ts'
import { outline } from './icons.ts'
import type { Language } from './languages/index.ts'

interface Content {
  readonly title: string
  readonly language: Language
  /** Title of the portal, above the card. */
  readonly brand: string
  /** `#rgb` or `#rrggbb`. */
  readonly accent: string
  readonly body: SafeHtml
  /** Whether the body has a list of links, which needs further styles. */
  readonly hasList?: boolean
  readonly footer?: SafeHtml | '' | undefined
  /** URLs of images that take the place of the gate. */
  readonly logo?: string | undefined
  readonly icon?: string | undefined
  /** Where its images are; undefined if it has none. */
  readonly images?: string | undefined
}

/** A whole page: the layout that all pages share, around the content. */
export function shell({ title, language, brand, accent, body, ...content }: Content): Page {
  const { hasList, footer, logo, icon, images } = content
  const header = logo ? html`<img src="${logo}" alt="${brand}">` : html`${outline('gate')}${brand}`
  const whole = html`<header>${header}</header>
<main>${body}</main>
${footer ? html`<footer>${footer}</footer>` : ''}`
  return pageOf(
    { title: `${title} · ${brand}`, language, accent, icon, images, body: whole },
    (hasList ? listStyles : styles).memo(accent),
  )
}

const [LIGHT, DARK] = ['#ffffff', '#16191f']

/** By accent. Only configured accents occur; the limit is for frequent reloads. */
const styles = createStyles('')
/** Apart, to keep the pages of a check small. */
const listStyles = createStyles(`
h2{font-size:1rem}
nav .initial{border-radius:.6rem;background:color-mix(in srgb,var(--accent) 14%,transparent);color:inherit}
.choice{justify-content:start;padding:.5rem;text-align:start}
.choice svg{width:2.25rem}
.choice img{flex:none;width:2.75rem;height:2.75rem}
small{display:block;font-weight:400}
summary{padding:.85rem 1rem;border:1px solid var(--line);border-radius:.75rem;font-weight:600;text-align:center;cursor:pointer}
pre{margin-top:.75rem;white-space:pre-wrap}
`)

function createStyles(more: string) {
  return new LRUCache<string, PageStyle>({
    max: 100,
    memoMethod: (accent) =>
      styleOf(`${sheet(standOut(accent, LIGHT), standOut(accent, DARK))}${more}`),
  })
}

const sheet = (light: string, dark: string) =>
  `
:root{color-scheme:light dark;--page:#f4f5f8;--card:${LIGHT};--ink:#15171c;--muted:#585f6d;--line:#d5d9e2;--accent:${light};--on:${textOn(light)};--good:#17692f;--warn:#8a5a00;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--page:#0c0e12;--card:${DARK};--ink:#f1f3f6;--muted:#a4abb9;--line:#323843;--accent:${dark};--on:${textOn(dark)};--good:#56c271;--warn:#f2b84b;--bad:#ff8a80}}
@media(prefers-contrast:more){:root{--muted:var(--ink);--line:var(--ink)}}
*{box-sizing:border-box;margin:0}
body{min-height:100vh;padding:2rem 1rem 10vh;display:flex;flex-direction:column;align-items:center;justify-content:center;gap:1.5rem;background:radial-gradient(50rem 26rem at 50% 0,color-mix(in srgb,var(--accent) 16%,transparent),transparent) var(--page);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,.person,a,button{display:flex;align-items:center;gap:.75rem}
header,b,a,button,.initial{font-weight:600}
main{width:min(100%,26rem);padding:2rem 1.75rem;border:1px solid var(--line);border-radius:1.25rem;background:var(--card);box-shadow:0 1.5rem 3rem -1.5rem #0003}
footer{font-size:.8rem;max-width:26rem}
h1{font-size:1.5rem;line-height:1.25;text-wrap:balance}
p,small,footer{color:var(--muted)}
h1~p{margin-top:.5rem}
svg{flex:none;width:1.5rem;fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
header svg,.symbol{color:var(--accent)}
img{height:3rem;max-width:100%;object-fit:contain}
.symbol{display:inline-flex;padding:.85rem;margin-bottom:1.25rem;border-radius:50%;background:color-mix(in srgb,currentColor 12%,transparent)}
.good{--accent:var(--good)}.warn{--accent:var(--warn)}.bad{--accent:var(--bad)}
.initial{flex:none;width:2.75rem;border-radius:50%;background:var(--accent);color:var(--on);line-height:2.75rem;text-align:center}
.person p{font-size:.9rem}
b{display:block;color:var(--ink);font-size:1rem}
nav,.actions,.person,.ask{margin-top:1.5rem}
nav,.actions{display:grid;gap:.75rem}
a,button{width:100%;min-height:3.25rem;padding:.6rem 1rem;justify-content:center;border:1px solid var(--line);border-radius:.75rem;background:none;color:inherit;font-family:inherit;font-size:1rem;line-height:1.3;text-align:center;text-decoration:none;cursor:pointer}
a.inline{display:inline;border:0;padding:0;text-decoration:underline}
a:hover,button:hover{border-color:currentColor}
.main{background:var(--accent);border-color:transparent;color:var(--on)}
:focus-visible{outline:3px solid var(--accent);outline-offset:3px}
`
