/** What a terminal obeys rather than shows; a provider may give people any name. */
const OBEYED = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

export function printable(text: string): string {
  return text.replace(OBEYED, '\u{fffd}')
}

/** A value as a line of JSON that has these characters as escapes. */
export function jsonLine(value: object): string {
  const escaped = (text: string) =>
    Array.from({ length: text.length }, (_, i) => escapeOf(text.charCodeAt(i))).join('')
  return `${JSON.stringify(value).replace(OBEYED, escaped)}\n`
}

function escapeOf(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}
