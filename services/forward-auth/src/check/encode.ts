/**
 * A text for a header: UTF-8 in percent-encoding for `%`, for what is not ASCII, and for a space at
 * either end, which receivers would cut; `decodeURIComponent` gives the text back. Control characters
 * stay as they are, so that the header is refused.
 */
export function encodeText(text: string): string {
  return text.replace(/[^\0-\x7f]|%|^ | $/gu, encodeURIComponent)
}

/** A list for a header: its entries encoded, a comma within one too, and joined by commas. */
export function encodeList(entries: readonly string[]): string {
  return entries.map((entry) => encodeText(entry).replaceAll(',', '%2C')).join(',')
}

/** A value as JSON in ASCII. */
export function encodeJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\x7f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
