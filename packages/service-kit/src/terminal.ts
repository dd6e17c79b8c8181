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
