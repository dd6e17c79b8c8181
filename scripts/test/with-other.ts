/**
 * Gives the text with another character of base64url at that negative index. The last one is not for that: some of its bits
 * may count for nothing, so that what was changed reads the same.
 */
export function withOther(text: string, index: number): string {
  const other = text.at(index) === 'A' ? 'B' : 'A'
  return `${text.slice(0, index)}${other}${text.slice(text.length + index + 1)}`
}
