import t from 'tap'
import {
  describeFailure,
  describeValid,
  readCommandLine,
  refuseCommand,
  UsageError,
} from '../src/command-line.ts'
import { ConfigError } from '../src/index.ts'

t.test('readCommandLine', async (t) => {
  t.strictSame(readCommandLine(['backup', 'a file', '--config', 'c.yaml']), {
    words: ['backup', 'a file'],
    config: 'c.yaml',
    help: false,
    version: false,
    flags: new Set(),
    values: {},
  })
  t.same(readCommandLine(['check-config', '--no-secrets']).flags, new Set(['no-secrets']))
  t.match(readCommandLine(['-h']), { words: [], help: true })
  for (const args of [['--port', '1'], ['--config'], ['--help=yes'], ['serve', '--no-secrets']])
    t.type(
      thrownBy(() => readCommandLine(args)),
      UsageError,
      args.join(' '),
    )
})

t.test('a flag of a service is for its command only', async (t) => {
  const own = { flags: { new: ['serve'] } }
  t.same(readCommandLine(['serve', '--new'], own).flags, new Set(['new']))
  t.same(readCommandLine(['serve'], own).flags, new Set())
  const wrong: [args: string[], own?: typeof own][] = [
    [['rekey', '--new'], own],
    [['serve', '--new']],
  ]
  for (const [args, given] of wrong)
    t.type(
      thrownBy(() => readCommandLine(args, given)),
      UsageError,
      args.join(' '),
    )
})

t.test('an option with a value is for its commands only', async (t) => {
  const own = { flags: { json: ['audit'] }, values: { portal: ['audit', 'explain'] } }
  t.match(readCommandLine(['audit', '--portal', 'main', '--json'], own), {
    flags: new Set(['json']),
    values: { portal: 'main' },
  })
  t.same(readCommandLine(['explain', 'x', '--portal=main'], own).values, { portal: 'main' })
  for (const [args, message] of [
    [['serve', '--portal', 'main'], '--portal is for audit and explain'],
    [['audit', '--portal'], /argument missing/],
    [['audit', '--json=yes'], /does not take an argument/],
  ] as const)
    t.match(
      thrownBy(() => readCommandLine(args, own)),
      { message },
    )
})

t.test('refuseCommand', async (t) => {
  t.throws(() => refuseCommand(['frobnicate', 'x'], 'HELP'), {
    message: 'cannot run "frobnicate x"; see --help',
  })
  t.throws(() => refuseCommand([], 'HELP'), { message: 'no command\n\nHELP' })
})

t.test('prints an error as one line with its code, and each fault on its own line', async (t) => {
  const at = { file: '/c.yaml', line: 1, column: 2 }
  const faults = [
    { ...at, path: '/a', message: 'is wrong' },
    { ...at, path: '/b', message: 'is too' },
  ]
  const missing = Object.assign(new Error('ENOENT: no such file'), {
    code: 'ENOENT',
    syscall: 'open',
    path: '/x/y',
  })
  const table: [error: Error, text: string][] = [
    [new UsageError('which?'), 'p: which?\n'],
    [new Error('not ready'), 'p: not ready\n'],
    [
      new ConfigError('CONFIG_NOT_FOUND', '/c does not exist'),
      'p: /c does not exist [CONFIG_NOT_FOUND]\n',
    ],
    [
      new ConfigError('CONFIG_INVALID', 'one\ntwo', { faults }),
      'one\ntwo\np: 2 faults in /c.yaml [CONFIG_INVALID]\n',
    ],
    [
      new ConfigError('CONFIG_INVALID', 'one', { faults: faults.slice(1) }),
      'one\np: 1 fault in /c.yaml [CONFIG_INVALID]\n',
    ],
    [missing, 'p: /x/y cannot be used: it does not exist [ENOENT]\n'],
  ]
  for (const [error, text] of table) t.equal(describeFailure('p', error), text)
})

t.test('reports a valid file, with the number of absent secrets', async (t) => {
  t.equal(describeValid({ file: '/c.yaml', absent: 0, warnings: [] }), '/c.yaml is valid\n')
  t.match(
    describeValid({ file: '/c.yaml', absent: 3, warnings: [] }),
    /^\/c\.yaml is valid; .* do not exist: 3\n$/,
  )
  t.equal(
    describeValid({ file: '/c.yaml', absent: 0, warnings: ['/c.yaml:3:1 /a is odd'] }),
    '/c.yaml:3:1 /a is odd (warning)\n/c.yaml is valid\n',
  )
})

function thrownBy(action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    return error
  }
}
