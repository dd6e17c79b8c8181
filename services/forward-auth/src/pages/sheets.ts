import { readFileSync } from 'node:fs'
import { type PageStyle, styleOf } from '@gatehouse/service-kit/pages'
import { LRUCache } from 'lru-cache'
import { standOut, textOn } from './colors.ts'

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

/** @param accent - `#rgb` or `#rrggbb` */
export function sheetOf(styles: Styles, accent: string): PageStyle {
  return SHEETS[styles].memo(accent)
}

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
