import t from 'tap'
import { readCommandLine, refuseCommand, UsageError } from '../src/index.ts'

t.test('readCommandLine', async (t) => {
  t.strictSame(readCommandLine(['backup', 'a file', '--config', 'c.yaml']), {
    words: ['backup', 'a file'],
    config: 'c.yaml',
    help: false,
  })
  t.match(readCommandLine(['-h']), { words: [], help: true })
  for (const args of [['--port', '1'], ['--config'], ['--help=yes']])
    t.type(
      thrownBy(() => readCommandLine(args)),
      UsageError,
      args.join(' '),
    )
})

t.test('refuseCommand', async (t) => {
  t.throws(() => refuseCommand(['frobnicate', 'x'], 'HELP'), {
    message: 'cannot do "frobnicate x"; see --help',
  })
  t.throws(() => refuseCommand([], 'HELP'), { message: 'which command?\n\nHELP' })
})

function thrownBy(action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    return error
  }
}
