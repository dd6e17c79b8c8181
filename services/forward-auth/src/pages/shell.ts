import { readFileSync } from 'node:fs'
import { type Page, type PageStyle, pageOf, styleOf } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { LRUCache } from 'lru-cache'
import { standOut, textOn } from './colors.ts'
import { outline } from './icons.ts'
import type { Language } from './languages.ts'

export interface ShellOptions extends Omit<Parameters<typeof pageOf>[0], 'script'> {
  readonly language: Language
  /** Title of the portal, above the card. */
  readonly brand: string
  /** `#rgb` or `#rrggbb`. */
  readonly accent: string
  readonly styles: Styles
  readonly footer?: SafeHtml | '' | undefined
  /** URL of an image that takes the place of the gate. */
  readonly logo?: string | undefined
}

/** A whole page: the layout that all pages share, around the content. */
export function shell(options: ShellOptions): Page {
  const { title, language, brand, accent, body, styles, footer, logo, ...pageOptions } = options
  const header = logo ? html`<img src="${logo}" alt="${brand}">` : html`${outline('gate')}${brand}`
  const pageBody = html`
    <header>${header}</header>
    <main>${body}</main>
    ${footer ? html`<footer>${footer}</footer>` : ''}`
  return pageOf(
    { ...pageOptions, title: `${title} · ${brand}`, language, accent, body: pageBody },
    SHEETS[styles].memo(accent),
  )
}

/** The colors of cards in base.css. */
const LIGHT = '#ffffff'
const DARK = '#16191f'

/** Style sheets by accent. Only configured accents occur; the limit is for frequent reloads. */
const SHEETS = {
  short: createSheets('shell'),
  usual: createSheets('shell', 'pages'),
  lists: createSheets('shell', 'pages', 'sessions'),
  consent: createSheets('shell', 'pages', 'consent'),
}

/** The styles that a page needs: few if it answers a check, as that is short. */
export type Styles = keyof typeof SHEETS

function createSheets(...names: string[]) {
  const read = (name: string) => readFileSync(new URL(`./${name}.css`, import.meta.url), 'utf8')
  const css = names.map(read).join('')
  return new LRUCache<string, PageStyle>({
    max: 100,
    memoMethod: (accent) => styleOf(`${accents(accent)}${css}`),
  })
}

/** The accent, and text on it, for cards of either color scheme. */
function accents(accent: string): string {
  const on = (card: string) => {
    const color = standOut(accent, card)
    return `:root{--accent:${color};--on:${textOn(color)}}`
  }
  return `${on(LIGHT)}@media(prefers-color-scheme:dark){${on(DARK)}}`
}
