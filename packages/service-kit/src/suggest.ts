/**
 * The candidate that was probably meant: at most two edits away, or one for short words. Otherwise
 * the last part of the word, such as `checks` for `allowedCheck`, or what begins with it, such as `issuerUrl` for `issuer`.
 */
export function suggest(word: string, candidates: readonly string[]): string | undefined {
  const most = Math.min(2, Math.floor(word.length / 3))
  for (let edits = 0; edits <= most; edits++) {
    const isNear = (candidate: string) =>
      isWithin(edits, word.toLowerCase(), candidate.toLowerCase())
    const nearest = candidates.find(isNear)
    if (nearest !== undefined) return nearest
  }
  const isLast = (candidate: string) =>
    [candidate, candidate.replace(/s$/, '')].some((end) =>
      word.endsWith(end.charAt(0).toUpperCase() + end.slice(1)),
    )
  const isFirst = (candidate: string) =>
    candidate.startsWith(word) && /^[A-Z]/.test(candidate.slice(word.length))
  return candidates.find(isLast) ?? candidates.find(isFirst)
}

/** Whether so many insertions, deletions, substitutions and swaps of neighbours make one text of the other. */
function isWithin(edits: number, a: string, b: string): boolean {
  if (a === b) return true
  if (Math.abs(a.length - b.length) > edits || edits === 0) return false
  let same = 0
  while (a[same] === b[same]) same++
  const x = a.slice(same)
  const y = b.slice(same)
  const isSwap = x[0] === y[1] && x[1] === y[0]
  return (
    isWithin(edits - 1, x.slice(1), y) ||
    isWithin(edits - 1, x, y.slice(1)) ||
    isWithin(edits - 1, x.slice(1), y.slice(1)) ||
    (isSwap && isWithin(edits - 1, x.slice(2), y.slice(2)))
  )
}

/** Names the nearest candidate behind a message that a word is not known, if there is one and the word is none of them. */
export function hintAt(word: string, candidates: readonly string[]): string {
  const nearest = candidates.includes(word) ? undefined : suggest(word, candidates)
  return nearest === undefined ? '' : `; did you mean ${nearest}?`
}
