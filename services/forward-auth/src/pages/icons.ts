import { PROVIDER_ICONS } from '@gatehouse/identity-providers'
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

const NEUTRAL = {
  color: '#565e6c',
  path: 'M12 4a4 4 0 0 1 0 8 4 4 0 0 1 0-8M4.5 20.5a7.5 7.5 0 0 1 15 0',
}

/** The tile of a provider, a neutral one if it has no built-in icon. */
export function tile(icon: string | undefined, color: string | undefined): SafeHtml {
  const { path, color: usual } = PROVIDER_ICONS.get(icon ?? '') ?? NEUTRAL
  const background = color ?? usual
  return html`
    <svg viewBox="-6 -6 36 36" aria-hidden="true">
      <rect x="-6" y="-6" width="36" height="36" rx="9" fill="${background}" stroke="none"/>
      <path stroke="${textOn(background)}" d="${path}"/>
    </svg>`
}
