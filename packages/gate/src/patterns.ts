/** Compiles a pattern in which `*` stands for any text. Its parts are looked for from left to right, each once. */
export function compilePattern(pattern: string): (text: string) => boolean {
  const [first = '', ...parts] = pattern.split('*')
  const last = parts.pop()
  if (last === undefined) return (text) => text === pattern
  return (text) => {
    if (!text.startsWith(first) || !text.endsWith(last)) return false
    let at = first.length
    for (const part of parts) {
      const found = text.indexOf(part, at)
      if (found < 0) return false
      at = found + part.length
    }
    return at <= text.length - last.length
  }
}
