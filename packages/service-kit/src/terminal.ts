/** A text that needs no escapes, as most do: this test takes a third of the time. */
const PLAIN = /^[\n -~]*$/
/** Characters that a terminal obeys or hides rather than shows. Printed text may be of another machine. */
const OBEYED = /[^\P{Cc}\t\n\r]|\r(?!\n)|[\p{Cf}\p{Zl}\p{Zp}]/gu

/**
 * Writes what a terminal obeys as JSON escapes it, such as `\u009b`: in JSON, the value stays the same. Line breaks and
 * tabs stay.
 */
export function escaped(text: string): string {
  if (PLAIN.test(text)) return text
  return text.replace(OBEYED, (match) => match.split('').map(escapeOf).join(''))
}

const escapeOf = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

/** The output of a command. What is written to a file or a pipe comes to a terminal later. */
export async function* printed(output: string | AsyncIterable<string>): AsyncGenerator<string> {
  const parts = typeof output === 'string' ? [output] : output
  for await (const text of parts) yield escaped(text)
}

/** Cleans a text of another machine for a terminal: short, and in one line. */
export function printable(text: string): string {
  const plain = escaped(text.replace(/[\t\n\r\u2028\u2029]+/g, ' '))
  return plain.length > 500 ? `${plain.slice(0, 500)}…` : plain
}
