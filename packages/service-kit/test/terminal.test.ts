import { Writable } from 'node:stream'
import t from 'tap'
import { runService, type ServiceProgram, UsageError } from '../src/program.ts'
import type { ServiceConfig } from '../src/start.ts'

const HOSTILE = 'a\u001b]0;x\u0007\u001b[2J\r\u009b1m\u202eb\u2028c\td\n'

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

t.test('whatever a command prints, it rules no terminal', async (t) => {
  const shown = 'a\ufffd]0;x\ufffd\ufffd[2J\ufffd\ufffd1m\ufffdb\ufffdc\td\n'
  const parts = async function* () {
    yield HOSTILE
    yield HOSTILE
  }
  const fail = () => {
    throw new UsageError(HOSTILE.trim())
  }
  t.same(await run(true, () => HOSTILE), { stdout: shown, stderr: '' })
  t.same(await run(true, parts), { stdout: shown + shown, stderr: '' })
  t.same(await run(true, fail), { stdout: '', stderr: `p: ${shown}` })
  t.same(await run(false, () => HOSTILE), { stdout: HOSTILE, stderr: '' }, 'a file gets all')
})
