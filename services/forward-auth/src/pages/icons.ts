import type { PROVIDER_ICONS } from '@gatehouse/identity-providers'
import { GATE } from '@gatehouse/service-kit/pages'
import { html, type SafeHtml } from '@remix-run/html-template'
import { textOn } from './colors.ts'

/** SVG paths on a grid of 24 by 24, drawn with a stroke width of 2. */
const OUTLINES = {
  gate: GATE,
  check: 'm5 12.5 4.5 4.5L19 7.5',
  leave: 'M14 4H6v16h8M10 12h10m-4-4 4 4-4 4',
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3M12 14.5v2',
  alert: 'M12 4 2.5 20h19zM12 10v4.5M12 17.2v.1',
  unplugged: 'M8 3v4m8-4v4M6 7h12v3a6 6 0 0 1-12 0zM12 16v2m0 3v.1',
} as const

export type SymbolName = Exclude<keyof typeof OUTLINES, 'gate'>

/** The symbols of success, of problems and of refusals, each in the colour of this class. */
export const TONES: Readonly<Partial<Record<SymbolName, 'good' | 'warn' | 'bad'>>> = {
  check: 'good',
  alert: 'warn',
  unplugged: 'warn',
  lock: 'bad',
}

/** A symbol above a heading, in the colour of its tone, or else in the accent colour. */
export function symbol(name: SymbolName): SafeHtml {
  return html`<div class="symbol ${TONES[name]}">${outline(name)}</div>`
}

/** An outline in the colour of the surrounding text. */
export function outline(name: keyof typeof OUTLINES): SafeHtml {
  return html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${OUTLINES[name]}"/></svg>`
}

interface Tile {
  readonly color: string
  readonly path: string
}

/** SVG paths on a grid of 24 by 24, drawn in white or black on the colour of the tile. */
const TILES: ReadonlyMap<string, Tile> = new Map(
  Object.entries({
    openid: {
      color: '#c2570c',
      path: 'M8 12.5a3.75 3.75 0 0 1 0 7.5 3.75 3.75 0 0 1 0-7.5M10.75 13.5 20 4.5M15.5 9l3 3',
    },
    google: { color: '#1a73e8', path: 'M18.5 7.5A8 8 0 1 0 20 12h-7.5' },
    microsoft: {
      color: '#0067b8',
      path: 'M4.5 4.5h6v6h-6zM13.5 4.5h6v6h-6zM4.5 13.5h6v6h-6zM13.5 13.5h6v6h-6z',
    },
    github: { color: '#24292f', path: 'M5 4.5 9 7h6l4-2.5v7a7 7 0 0 1-14 0zM9 18v3.5M15 18v3.5' },
    gitlab: { color: '#c9401a', path: 'M6 4 3.5 13 12 20.5 20.5 13 18 4l-2.5 6h-7z' },
    'pocket-id': { color: '#3f3f46', path: 'M4.5 5h15v6.5a7.5 7.5 0 0 1-15 0zM12 9.5v4' },
    tailscale: {
      color: '#3d4451',
      path: 'M4.5 4.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1zM4.5 11.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1zM4.5 18.5h1v1h-1zm7 0h1v1h-1zm7 0h1v1h-1z',
    },
  } satisfies Record<(typeof PROVIDER_ICONS)[number], Tile>),
)

const NEUTRAL: Tile = {
  color: '#565e6c',
  path: 'M12 4a4 4 0 0 1 0 8 4 4 0 0 1 0-8M4.5 20.5a7.5 7.5 0 0 1 15 0',
}

/** The tile of a provider, a neutral one if it has no built-in icon. */
export function tile(icon: string | undefined, color: string | undefined): SafeHtml {
  const { path, color: usual } = TILES.get(icon ?? '') ?? NEUTRAL
  const background = color ?? usual
  return html`
    <svg viewBox="-6 -6 36 36" aria-hidden="true">
      <rect x="-6" y="-6" width="36" height="36" rx="9" fill="${background}" stroke="none"/>
      <path stroke="${textOn(background)}" d="${path}"/>
    </svg>`
}
