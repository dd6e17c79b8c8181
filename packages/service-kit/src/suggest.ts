/**
 * The candidate that was probably meant: at most two edits away, or one for short words. Otherwise
 * the last part of the word, such as `checks` for `allowedChecks`.
 */
export function suggest(word: string, candidates: readonly string[]): string | undefined {
  let best = candidates.find((candidate) => word.endsWith(capitalize(candidate)))
  let bestDistance = Math.min(2, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

function capitalize(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

/** Counts insertions, deletions, substitutions and swaps of neighbours (Damerau–Levenshtein). */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return Number.POSITIVE_INFINITY
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const swap = isSwap ? at(beforeLast, j - 2) + 1 : substitution
      row.push(Math.min(at(last, j) + 1, at(row, j - 1) + 1, substitution, swap))
    }
    beforeLast = last
    last = row
  }
  return at(last, b.length)
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY
}
