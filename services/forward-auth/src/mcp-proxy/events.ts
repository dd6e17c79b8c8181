import { orLate } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit/clock'

/** The longest event that is looked into, in bytes. A longer one passes as it is. */
const MAX_EVENT = 4_194_304
/** The time without an event after which a comment is sent, in ms: proxies cut streams that are quiet for longer. */
const QUIET = 15_000
/** The end of an event (HTML Standard, "Interpreting an event stream"): an empty line. */
const END = /(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/g
const LINE_END = /\r\n|\n|\r/
/** An event that tells clients nothing. */
export const COMMENT = ':\n\n'

/** A piece of an event stream, with bytes as code units: an event, or a part of one that is too long. */
export interface Piece {
  readonly text: string
  /** Whether an event ends with it. */
  readonly isEnd: boolean
  /** Whether it is the whole of an event. */
  readonly isWhole: boolean
}

/** A text that comes in pieces, so that each byte is looked at once however short they are. */
class PendingText {
  length = 0
  #pieces: string[] = []

  add(piece: string): void {
    this.#pieces.push(piece)
    this.length += piece.length
  }

  take(): string {
    const text = this.#pieces.join('')
    this.#pieces = []
    this.length = 0
    return text
  }
}

/** Splits an event stream into its events. */
export async function* splitEvents(source: AsyncIterable<Uint8Array>): AsyncGenerator<Piece> {
  const event = new PendingText()
  // An empty line may have begun there.
  let tail = ''
  let isBegun = false
  for await (const chunk of source) {
    const searched = tail + Buffer.from(chunk).toString('latin1')
    let start = tail.length
    let tailStart = 0
    for (const { 0: emptyLine, index } of searched.matchAll(END)) {
      const end = index + emptyLine.length
      // The second half of a line end may follow.
      if (end === searched.length && emptyLine.endsWith('\r')) break
      event.add(searched.slice(start, end))
      yield { text: event.take(), isEnd: true, isWhole: !isBegun }
      start = end
      tailStart = end
      isBegun = false
    }
    event.add(searched.slice(start))
    tail = searched.slice(Math.max(tailStart, searched.length - 3))
    if (event.length > MAX_EVENT) {
      yield { text: event.take(), isEnd: false, isWhole: false }
      isBegun = true
    }
  }
  if (event.length > 0) yield { text: event.take(), isEnd: true, isWhole: !isBegun }
}

/** Gives the messages of a stream, with those that a function changes. */
export async function* mapMessages(
  pieces: AsyncIterable<Piece>,
  change: (message: string) => string,
): AsyncGenerator<Piece> {
  for await (const piece of pieces) {
    if (!piece.isWhole) yield piece
    else yield { ...piece, text: changeData(piece.text, change) }
  }
}

function changeData(event: string, change: (message: string) => string): string {
  const lines = event.split(LINE_END)
  const isData = (line: string) => line === 'data' || line.startsWith('data:')
  const data = lines.filter(isData).map((line) => line.replace(/^data:? ?/, ''))
  if (data.length === 0) return event
  const message = Buffer.from(data.join('\n'), 'latin1').toString()
  const changed = change(message)
  if (changed === message) return event
  const others = lines.filter((line) => line !== '' && !isData(line))
  return `${[...others, `data: ${Buffer.from(changed).toString('latin1')}`].join('\n')}\n\n`
}

/** An event with one message. */
export function eventOf(message: object): string {
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`
}

/** The bytes of a stream, which begins at once, with a comment whenever it has been quiet for long. */
export async function* withComments(
  pieces: AsyncIterable<Piece>,
  clock: Clock,
): AsyncGenerator<Buffer> {
  const iterator = pieces[Symbol.asyncIterator]()
  try {
    yield Buffer.from(COMMENT)
    let isBetween = true
    let next = iterator.next()
    for (;;) {
      const result = await orLate(next, clock, QUIET)
      if (result?.done) return
      if (result) {
        isBetween = result.value.isEnd
        next = iterator.next()
        yield Buffer.from(result.value.text, 'latin1')
      } else if (isBetween) yield Buffer.from(COMMENT)
    }
  } finally {
    await iterator.return?.()
  }
}
