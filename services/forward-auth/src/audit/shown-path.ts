const MAX_SEGMENTS = 8
/** A random token of 16 bytes has more in every encoding. */
const MAX_SEGMENT = 20
const MAX_TARGET = 512
const WORD = '(?:[A-Z]?[a-z]{1,15}(?:[A-Z][a-z]{2,15}){0,3}|[A-Z]{1,8})?[0-9]{0,4}'
/** Words such as `admin`, `userProfile` or `v2`, and short numbers. What is none may be a secret, such as a token. */
const WORDS = new RegExp(`^${WORD}(?:[-_.~]${WORD})*$`)

/** The path of a target for logs and the audit trail: without the query, `*` for whatever is not made of words. */
export function shownPath(target: string): string {
  // A target that is cut off ends in `*`, which is no word.
  const start = target.length > MAX_TARGET ? `${target.slice(0, MAX_TARGET)}*` : target
  const [path = ''] = start.split('?', 1)
  const segments = path.split('/', MAX_SEGMENTS + 2).map((segment, i) => {
    const isShown = i <= MAX_SEGMENTS && segment.length <= MAX_SEGMENT && WORDS.test(segment)
    return isShown ? segment : '*'
  })
  return segments.join('/')
}
