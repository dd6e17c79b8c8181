const MAX_SEGMENTS = 8
const MAX_PATH = 128
const MAX_SEGMENT = 32
/** A word such as `admin`, `userProfile` or `v2`, or a short number. What is none may be a secret, such as a token. */
const WORD =
  /^(?:\p{Lu}?\p{Ll}{1,15}(?:\p{Lu}\p{Ll}{2,15}){0,3}|\p{Lu}{1,8}|\p{Lo}{1,15})?[0-9]{0,4}$/u

/** The path of a target for logs and the audit trail: without the query, `*` for whatever is not made of words. */
export function shownPath(target: string): string {
  const [path = ''] = target.split('?', 1)
  const segments = path.split('/', MAX_SEGMENTS + 2)
  const shown = segments.slice(0, MAX_SEGMENTS + 1).map(shownSegment)
  const isCut = segments.length > shown.length
  return `${shown.join('/')}${isCut ? '/*' : ''}`.slice(0, MAX_PATH)
}

function shownSegment(segment: string): string {
  if (segment.length > MAX_SEGMENT) return '*'
  return segment.split(/[-_. ~]|%20/).every((word) => WORD.test(decoded(word))) ? segment : '*'
}

/** The word itself; for what is no UTF-8, something that is no word. */
function decoded(word: string): string {
  try {
    return decodeURIComponent(word)
  } catch {
    return '*'
  }
}
