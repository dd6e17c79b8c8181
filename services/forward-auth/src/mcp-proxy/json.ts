import { attempt } from '@gatehouse/net'
import { FwaError } from '../errors.ts'

const MAX_DEPTH = 64
const MAX_MEMBERS = 10_000
const MAX_VALUES = 50_000

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const LITERAL = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const INTEGER = /^-?\d+$/
/** A string without escapes, and without the control characters that JSON forbids. */
const PLAIN = /^[^\\\p{Cc}]*$/u

/** The names and indexes that lead to a value. */
export type Path = readonly (string | number)[]

/**
 * Reads JSON (RFC 8259) that all parsers read alike, in one pass. It refuses a name that comes twice in an object, even in
 * another case, which parsers for Go ignore; half of a surrogate pair; and numbers that are infinite as doubles.
 * Integers that a double cannot hold become bigints.
 */
export class JsonReader {
  readonly text: string
  /** Where the members of `params` stand in the text, each from its name to the end of its value. */
  readonly params = new Map<string, readonly [start: number, end: number]>()
  #position = 0
  #members = 0
  #values = 0
  readonly #path: (string | number)[] = []

  /** @throws FwaError FWA_CALL_UNREADABLE */
  constructor(bytes: Uint8Array) {
    const text = attempt(() => utf8.decode(bytes))
    if (text === undefined) throw unreadable('not UTF-8', [])
    this.text = text
  }

  /** @throws FwaError FWA_CALL_UNREADABLE */
  read(): unknown {
    const value = this.#readValue()
    if (this.#next() !== undefined) throw this.#refusal('something after the value')
    return value
  }

  #readValue(): unknown {
    if (++this.#values > MAX_VALUES) throw this.#refusal(`more than ${MAX_VALUES} values`)
    const first = this.#next()
    if (first === '{') return this.#readObject()
    if (first === '[') return this.#readArray()
    return first === '"' ? this.#readString() : this.#readLiteral()
  }

  #readObject(): Record<string, unknown> {
    const object: Record<string, unknown> = {}
    const folded = new Set<string>()
    this.#readList('}', () => {
      if (this.#next() !== '"') throw this.#refusal('no name of a member')
      const start = this.#position
      const name = this.#readString()
      this.#path[this.#path.length - 1] = name
      this.#assertName(name, folded)
      this.#skip(':')
      object[name] = this.#readValue()
      if (this.#path.length === 2 && this.#path[0] === 'params')
        this.params.set(name, [start, this.#position])
    })
    return object
  }

  #assertName(name: string, folded: Set<string>): void {
    if (++this.#members > MAX_MEMBERS) throw this.#refusal(`more than ${MAX_MEMBERS} members`)
    if (name === '__proto__') throw this.#refusal('a name that some parsers drop')
    if (folded.size === folded.add(fold(name)).size)
      throw this.#refusal('a name for the second time, perhaps in another case')
  }

  #readArray(): unknown[] {
    const array: unknown[] = []
    this.#readList(']', () => array.push(this.#readValue()))
    return array
  }

  /** Reads what stands between brackets, separated by commas. */
  #readList(end: string, readElement: () => void): void {
    if (this.#path.length === MAX_DEPTH) throw this.#refusal(`more than ${MAX_DEPTH} levels`)
    this.#position++
    for (let index = 0; this.#next() !== end; index++) {
      if (index > 0) this.#skip(',')
      this.#path.push(index)
      readElement()
      this.#path.pop()
    }
    this.#position++
  }

  #readString(): string {
    const start = this.#position + 1
    let end = this.text.indexOf('"', start)
    while (isEscaped(this.text, end)) end = this.text.indexOf('"', end + 1)
    if (end === -1) throw this.#refusal('a text without end')
    this.#position = end + 1
    const source = this.text.slice(start, end)
    if (PLAIN.test(source)) return source
    const string: string | undefined = attempt(() => JSON.parse(`"${source}"`))
    if (!string?.isWellFormed()) throw this.#refusal('a text that is not Unicode')
    return string
  }

  #readLiteral(): unknown {
    LITERAL.lastIndex = this.#position
    if (!LITERAL.test(this.text)) throw this.#refusal('not JSON')
    const source = this.text.slice(this.#position, LITERAL.lastIndex)
    this.#position = LITERAL.lastIndex
    const value: unknown = JSON.parse(source)
    if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
    if (!Number.isFinite(value)) throw this.#refusal('a number that is too large')
    return INTEGER.test(source) ? BigInt(source) : value
  }

  /** The next character that is not a space; undefined at the end. */
  #next(): string | undefined {
    let next = this.text[this.#position]
    while (next === ' ' || next === '\n' || next === '\r' || next === '\t')
      next = this.text[++this.#position]
    return next
  }

  #skip(mark: string): void {
    if (this.#next() !== mark) throw this.#refusal(`no "${mark}"`)
    this.#position++
  }

  #refusal(problem: string): FwaError {
    return unreadable(problem, this.#path)
  }
}

/** A text that is the same for names that are equal to parsers that ignore case (Unicode simple case folding). */
export function fold(name: string): string {
  return name.toLowerCase().toUpperCase()
}

/** The error that says what is wrong with a body, and where, by a JSON pointer (RFC 6901), of which long names are cut. */
export function unreadable(problem: string, path: Path): FwaError {
  const names = path.map((key) => `${key}`.slice(0, 60).replaceAll('~', '~0').replaceAll('/', '~1'))
  const pointer = JSON.stringify(names.map((name) => `/${name}`).join(''))
  return new FwaError(
    'FWA_CALL_UNREADABLE',
    `Not a message that all servers read alike: ${problem} at ${pointer}`,
  )
}

function isEscaped(text: string, position: number): boolean {
  let start = position
  while (text[start - 1] === '\\') start--
  return (position - start) % 2 === 1
}
