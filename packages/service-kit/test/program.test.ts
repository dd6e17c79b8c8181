import { Writable } from 'node:stream'
import fc from 'fast-check'
import t from 'tap'
import { printable, runService, type ServiceProgram, UsageError } from '../src/program.ts'
import type { ServiceConfig } from '../src/start.ts'
import { createLogger } from '../src/telemetry/log.ts'

const HOSTILE = 'a\u001b]0;x\u0007\u001b[2J\r\u009b1m\u202eb\u2028c\u{e0001}\td\r\n'
const SHOWN = 'a\\u001b]0;x\\u0007\\u001b[2J\\u000d\\u009b1m\\u202eb\\u2028c\\udb40\\udc01\td\r\n'

/** What a program writes, and where. */
async function run(isTTY: boolean, output: () => string | AsyncIterable<string>) {
  const written = { stdout: '', stderr: '' }
  const streamOf = (name: keyof typeof written) =>
    Object.assign(
      new Writable({
        write(chunk, _, done) {
          written[name] += chunk
          done()
        },
      }),
      { isTTY },
    )
  const command = { usage: 'say', group: 'G:', summary: 's', examples: ['p say'] }
  const program = {
    ...{ program: 'p', name: 'p', version: '1', summary: 's' },
    commands: [{ ...command, run: async () => output() }],
  } as unknown as ServiceProgram<ServiceConfig>
  await runService(program, {
    ...{ argv: ['node', 'p', 'say'], env: {} },
    ...{ stdout: streamOf('stdout'), stderr: streamOf('stderr') },
  } as unknown as NodeJS.Process)
  return written
}

t.test('whatever a command prints, it rules no terminal, now or later', async (t) => {
  const parts = async function* () {
    yield HOSTILE
    yield HOSTILE
  }
  const fail = () => {
    throw new UsageError(HOSTILE.trim())
  }
  for (const isTTY of [true, false]) {
    t.same(await run(isTTY, () => HOSTILE), { stdout: SHOWN, stderr: '' })
    t.same(await run(isTTY, parts), { stdout: SHOWN + SHOWN, stderr: '' })
    t.same(await run(isTTY, fail), { stdout: '', stderr: `p: ${SHOWN.trim()}\n` })
  }
})

/** Text of strangers: any, and much of what matters. */
const text = fc.string({
  unit: fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.constantFrom(
      ...'\u001b\u009b\u007f\r\n\t\u200b\u200f\u202e\u2028\u2029\u2066\ufeff\u00ad"\\',
    ),
    fc.constant('\u{e0041}'),
  ),
})
const SAFE = /^(?:[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|[\t\n]|\r\n)*$/u

t.test('property: no output holds what a terminal obeys, and JSON keeps its values', async (t) => {
  await fc.assert(
    fc.asyncProperty(text, fc.boolean(), async (given, isTTY) => {
      const fail = () => {
        throw new Error(given)
      }
      t.match((await run(isTTY, () => given)).stdout, SAFE)
      t.match((await run(isTTY, fail)).stderr, SAFE)
      for (const space of [undefined, 2]) {
        const { stdout } = await run(isTTY, () => JSON.stringify({ [given]: [given] }, null, space))
        t.match(stdout, SAFE)
        t.strictSame(JSON.parse(stdout), { [given]: [given] })
      }
      t.match(printable(given), /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u)
      const lines: string[] = []
      const stream = { write: (line: string) => void lines.push(line) }
      createLogger({ level: 'info', format: 'json', name: 'p', stream }).info({ given }, given)
      t.match(lines.join(''), SAFE)
      t.match(JSON.parse(lines.join('')), { given, msg: given })
    }),
  )
})

t.test('what is printed rules no terminal', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 2_000 }), (text) => {
      const shown = printable(text)
      return shown.length <= 501 && !/\p{Cc}|\p{Bidi_Control}|[\u2028\u2029]/u.test(shown)
    }),
  )
  t.end()
})
