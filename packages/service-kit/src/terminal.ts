/** A terminal obeys control characters, and what is printed may be text of another machine. */
const UNSAFE = /[^\P{Cc}\n\t]|\p{Bidi_Control}|[\u2028\u2029]/gu

/** The output of a command, without what a terminal obeys if the stream is one. */
export async function* printed(
  output: string | AsyncIterable<string>,
  { isTTY }: { readonly isTTY?: boolean },
): AsyncGenerator<string> {
  const parts = typeof output === 'string' ? [output] : output
  for await (const text of parts) yield isTTY ? text.replace(UNSAFE, '\u{fffd}') : text
}

/** Cleans a text of another machine for a terminal: short, and in one line without control characters. */
export function printable(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]+/gu, ' ')
  return plain.length > 500 ? `${plain.slice(0, 500)}…` : plain
}
