import { attempt } from '@gatehouse/net'
/** Whether something fits; `maybe` if it does for some of what the unknown of a request may be. */
export type Fit = 'yes' | 'no' | 'maybe'

/** The path of a request, as far as all apps agree about it. */
export interface RequestPath {
  /** Segments, percent-decoded once. */
  readonly segments: readonly string[]
  /** The same, see {@link fold}. */
  readonly folded: readonly string[]
  /** The beginning of the segment after them, folded; undefined if there is none. */
  readonly next: string | undefined
}

export const UNKNOWN_PATH: RequestPath = { segments: [], folded: [], next: '' }

export interface PathPattern extends Pick<RequestPath, 'segments' | 'folded'> {
  /** Whether it fits every path below as well. */
  readonly isPrefix: boolean
}

/** `/x` is that path, with or without a slash at its end; `/x/*` also every path below it. */
export function compilePath(pattern: string): PathPattern {
  const patternSegments = segmentsOf(pattern)
  const isPrefix = patternSegments.at(-1) === '*'
  const segments = isPrefix ? patternSegments.slice(0, -1) : patternSegments
  return { segments, folded: segments.map(fold), isPrefix }
}

/** Whether a pattern fits a path. `*` is any one segment. */
export function fitPath({ segments, folded, isPrefix }: PathPattern, path: RequestPath): Fit {
  const { segments: requestSegments, next } = path
  let fit: Fit = 'yes'
  for (let i = 0; i < segments.length; i++) {
    const segment = segments[i]
    if (i === requestSegments.length) {
      if (next === undefined) return 'no'
      return segment === '*' || folded[i]?.startsWith(next) ? 'maybe' : 'no'
    }
    if (segment === '*' || segment === requestSegments[i]) continue
    if (folded[i] !== path.folded[i]) return 'no'
    fit = 'maybe'
  }
  if (isPrefix) return fit
  if (requestSegments.length > segments.length || (next !== undefined && next !== '')) return 'no'
  return next === undefined ? fit : 'maybe'
}

/** Whether a pattern fits every path that another one fits. */
export function coversPath(wide: PathPattern, narrow: PathPattern): boolean {
  if (narrow.isPrefix && !wide.isPrefix) return false
  return fitPath(wide, { ...narrow, next: undefined }) === 'yes'
}

/** The number of segments that are read: more than the pattern of a rule may have. */
const MAX_SEGMENTS = 64
/** Characters of a path that is not plain: more is not decoded, folded and normalized at each check. */
const MAX_LENGTH = 8_192
/** More marks in a row than text has (UAX 15, stream-safe text): to order them takes quadratic time. */
const TOO_MANY_MARKS = /[\p{M}\uff9e\uff9f]{31}/u
/** Segments of these characters, and not of dots and `+` alone, are the same to every app. */
const PLAIN = /^(?:\/(?:[.+]*[\w~!$&'()*,=:@-])+[.+]*)*\/?$/

/**
 * Reads the path of a target up to its first odd segment: an empty one, or one with an encoded slash or
 * percent sign, `;`, `\`, `?`, `#`, a character that is not shown, or one that Unicode takes for another
 * (NFKC). Of that segment, what stands before the odd character is known. Nothing is known if the path
 * may climb by a segment of dots, if its encoding is not valid UTF-8, or if it would take long to find out.
 */
export function readPath(target: string): RequestPath {
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  const isPlain = PLAIN.test(path)
  if (!isPlain && path.length > MAX_LENGTH) return UNKNOWN_PATH
  const segments = segmentsOf(path)
  if (isPlain && segments.length <= MAX_SEGMENTS) return pathOf(segments, undefined)
  if (mayClimb(encodeBytes(path))) return UNKNOWN_PATH
  const agreed: string[] = []
  for (const written of segments) {
    const { text, odd } = readSegment(written)
    if (odd !== undefined || agreed.length === MAX_SEGMENTS) return pathOf(agreed, odd ?? '')
    agreed.push(text)
  }
  return pathOf(agreed, undefined)
}

/** Whether a path as it is configured, percent-encoded or not, is the same to every app. */
export function isNormalPath(path: string): boolean {
  if (!path.isWellFormed()) return false
  const { segments, next } = readPath(path.replaceAll(/[^!-~]/gu, encodeURIComponent))
  return next === undefined && !segments.some((segment) => /^\s|[.\s]$/.test(segment))
}

function pathOf(segments: readonly string[], next: string | undefined): RequestPath {
  return { segments, folded: segments.map(fold), next }
}

/** The segments of a path, without the empty one of a slash at its end. */
function segmentsOf(path: string): string[] {
  const [, ...segments] = path.split('/')
  if (segments.at(-1) === '') segments.pop()
  return segments
}

const ODD = /[/\\;?#%\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Cf}\p{DI}]/u
const HIDDEN = /[\p{Cf}\p{DI}]/gu

/** A segment as text and, if it is odd, what it begins with for every app. */
function readSegment(written: string): { text: string; odd?: string } {
  // Some apps read bytes that are not encoded in another way.
  if (/[^\0-\x7f]/.test(written)) return { text: '', odd: '' }
  const text = decodeURIComponent(written)
  const bare = text.replace(HIDDEN, '')
  if (TOO_MANY_MARKS.test(bare)) return { text: '', odd: '' }
  const shown = bare.normalize('NFKC')
  const position = text.search(ODD)
  if (position < 0 && shown === text && fold(text) !== '') return { text }
  const start = position < 0 ? text : text.slice(0, position)
  return { text, odd: shown.startsWith(start) ? fold(start) : '' }
}

const FOLDED = /^(?:\.*[a-z0-9_~-])+$/

/** A segment in one form for all that apps take it for: no case, `+` a space, no spaces around it, no dots at its end. */
function fold(segment: string): string {
  if (FOLDED.test(segment)) return segment
  const text = segment.normalize('NFKD').toUpperCase().toLowerCase().replaceAll('+', ' ').trim()
  let end = text.length
  while (end > 0 && /[.\s]/.test(text.charAt(end - 1))) end--
  return text.slice(0, end)
}

/** The number of times that a path is decoded: more often than anybody encodes one. */
const MAX_DECODINGS = 4
/** Between separators, dots and what apps drop. A character is in one of the classes, so that this is linear. */
const DOTS =
  /(?:^|[/\\;?#\p{Cc}\p{Zl}\p{Zp}])[\p{Zs}\p{Cf}\p{DI}%+]*\.[\p{Zs}\p{Cf}\p{DI}%+.]*(?=$|[/\\;?#\p{Cc}\p{Zl}\p{Zp}])/u

/** Whether some app may find a segment of dots in a path, however often it decodes it. */
function mayClimb(path: string): boolean {
  let text = attempt(() => decodeURIComponent(path))
  for (let times = 1; text !== undefined && times <= MAX_DECODINGS; times++) {
    if (TOO_MANY_MARKS.test(text)) return true
    const shown = text.normalize('NFKC')
    if (DOTS.test(shown)) return true
    if (!shown.includes('%')) return false
    // An app may decode before or after it replaces characters, which need not give the same.
    if (shown !== text) return true
    const decoded = decodeAgain(text)
    if (decoded === text) return false
    text = decoded
  }
  return true
}

/** Undefined for what is not UTF-8, and for `%u002e`, which some servers decode. */
function decodeAgain(text: string): string | undefined {
  if (/%u[0-9a-f]{4}/i.test(text)) return undefined
  return attempt(() => text.replace(/(?:%[0-9a-f]{2})+/gi, decodeURIComponent))
}

function encodeBytes(target: string): string {
  return target.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`)
}
