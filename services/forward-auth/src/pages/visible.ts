import { canonicalJson } from '../canonical-json.ts'

/** A text as pages show it: at odd places stand the names of what nobody would see there. */
export type VisibleText = readonly string[]

/** Runs of spaces, other blanks, and what has no shape of its own, changes the direction or covers other text. */
const HIDDEN = /( {2,}|[\p{C}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Z}|\p{M}{3,})/u

/** Shows all of a text. */
export function visibleText(text: string): VisibleText {
  return text.split(HIDDEN).map((part, i) => (i % 2 === 0 ? part : nameOf(part)))
}

function nameOf(hidden: string): string {
  if (hidden.startsWith(' ')) return `␣×${hidden.length}`
  const codes = Array.from(hidden, (character) => character.codePointAt(0) ?? 0)
  return codes.map((code) => `U+${code.toString(16).toUpperCase().padStart(4, '0')}`).join(' ')
}

/** An argument of a call: its name, and its value as JSON. */
export type ArgumentLine = readonly [name: VisibleText, value: VisibleText]

/** Bytes of the arguments of a call, as JSON. */
const MAX_ARGUMENTS = 16_384

/** The arguments of a call, whole; undefined if they are too long, or have a number that is not the one that was sent. */
export function argumentLines(
  parameters: Readonly<Record<string, unknown>>,
): readonly ArgumentLine[] | undefined {
  let isExact = true
  const text = JSON.stringify(parameters, (_name, part) => {
    isExact &&= typeof part !== 'number' || Math.abs(part) <= Number.MAX_SAFE_INTEGER
    return typeof part === 'bigint' ? `${part}` : part
  })
  if (!isExact || Buffer.byteLength(text) > MAX_ARGUMENTS) return undefined
  return Object.entries(parameters).map(([name, argument]) => [
    visibleText(name),
    visibleText(canonicalJson(argument)),
  ])
}
