import fc from 'fast-check'
import t from 'tap'
import { splitEvents } from '../../src/mcp-proxy/events.ts'

async function split(chunks: readonly string[]) {
  const source = async function* () {
    for (const chunk of chunks) yield Buffer.from(chunk, 'latin1')
  }
  return Array.fromAsync(splitEvents(source()))
}

t.test('events end at an empty line, by any line ends', async (t) => {
  const table: [stream: string, events: string[]][] = [
    ['data: a\n\ndata: b\n\n', ['data: a\n\n', 'data: b\n\n']],
    ['data: a\r\n\r\ndata: b\r\r', ['data: a\r\n\r\n', 'data: b\r\r']],
    ['data: a\n\r\ndata: b', ['data: a\n\r\n', 'data: b']],
    ['data: a\r\ndata: b\r\n', ['data: a\r\ndata: b\r\n']],
    ['', []],
  ]
  for (const [stream, events] of table)
    t.strictSame(
      (await split([stream])).map(({ text }) => text),
      events,
    )
})

t.test('the events are the same however a stream is cut into chunks', async (t) => {
  const streams = fc.array(fc.constantFrom('\r', '\n', '\r\n', 'data: a', ':', 'x'), {
    maxLength: 30,
  })
  await fc.assert(
    fc.asyncProperty(streams, fc.array(fc.nat({ max: 60 })), async (parts, places) => {
      const stream = parts.join('')
      const cuts = [0, ...places.filter((place) => place < stream.length), stream.length]
      const sorted = cuts.toSorted((a, b) => a - b)
      const chunks = sorted.slice(1).map((end, i) => stream.slice(sorted[i], end))
      const [whole, cut] = [await split([stream]), await split(chunks)]
      t.strictSame(cut, whole, JSON.stringify(chunks))
      return whole.map(({ text }) => text).join('') === stream
    }),
    { numRuns: 500 },
  )
})

t.test('an event that is too long comes in parts', async (t) => {
  const pieces = await split(['data: ', 'x'.repeat(4_194_304), 'y\n\ndata: a\n\n'])
  t.match(pieces, [
    { isEnd: false, isWhole: false },
    { text: 'y\n\n', isEnd: true, isWhole: false },
    { text: 'data: a\n\n', isEnd: true, isWhole: true },
  ])
})
