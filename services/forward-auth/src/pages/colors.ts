export const COLOR_PATTERN = '^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$'

export const DEFAULT_ACCENT = '#4256d0'

/** WCAG 2.2: normal text. */
const TEXT = 4.5
/** WCAG 2.2: buttons, icons, focus. */
const GRAPHICS = 3
const STEPS = 20

type Rgb = readonly [red: number, green: number, blue: number]

/** The contrast ratio of WCAG 2.2: 1 for the same colour, 21 for black on white. */
export function contrast(color: string, background: string): number {
  const [dark = 0, light = 0] = [luminance(color), luminance(background)].toSorted((a, b) => a - b)
  return (light + 0.05) / (dark + 0.05)
}

/** Colour of text on a background: white if the contrast reaches AA, otherwise black, which then does. */
export function textOn(background: string): '#ffffff' | '#000000' {
  return contrast(background, '#ffffff') >= TEXT ? '#ffffff' : '#000000'
}

/** The colour, darkened or lightened until its contrast with the background suffices for graphics. */
export function standOut(color: string, background: string): string {
  const start = parse(color)
  const end = parse(textOn(background))
  const shades = Array.from({ length: STEPS + 1 }, (_, step) =>
    format(mix(start, end, step / STEPS)),
  )
  return shades.find((shade) => contrast(shade, background) >= GRAPHICS) ?? format(end)
}

function parse(color: string): Rgb {
  if (!new RegExp(COLOR_PATTERN).test(color)) throw new TypeError(`Not a colour: ${color}`)
  const hex = color.length === 4 ? color.replace(/[^#]/g, '$&$&') : color
  const channel = (index: number) => Number.parseInt(hex.slice(index, index + 2), 16)
  return [channel(1), channel(3), channel(5)]
}

function format(rgb: Rgb): string {
  return `#${rgb.map((channel) => channel.toString(16).padStart(2, '0')).join('')}`
}

function mix([r, g, b]: Rgb, [toR, toG, toB]: Rgb, share: number): Rgb {
  const between = (start: number, end: number) => Math.round(start + (end - start) * share)
  return [between(r, toR), between(g, toG), between(b, toB)]
}

function luminance(color: string): number {
  const [r, g, b] = parse(color).map((channel) => {
    const share = channel / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
