const NOT_PRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Bidi_Control}]/u

/**
 * Whether a text can stand on one line and read as what it is: not empty, no control character, line
 * separator, lone surrogate or mark that changes the direction of writing.
 */
export function isPrintable(text: string, maxLength: number): boolean {
  return text.length > 0 && text.length <= maxLength && !NOT_PRINTABLE.test(text)
}

/** The text as one printable line, or `undefined` if nothing is left or it is too long to begin with. */
export function toPrintable(text: string, maxLength: number): string | undefined {
  if (text.length > maxLength) return undefined
  const line = text
    .replace(/[\p{Bidi_Control}\p{Cs}]/gu, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  return line || undefined
}
