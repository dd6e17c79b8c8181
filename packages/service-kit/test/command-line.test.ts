import t from 'tap'
import {
  describeFailure,
  describeValid,
  readChoice,
  readCommandLine,
  readTime,
  UsageError,
} from '../src/command-line.ts'
import { ConfigError } from '../src/config/index.ts'

const SYNTAX = {
  program: 'p',
  version: '1.2.3',
  summary: 'does things',
  commands: [
    { usage: 'backup FILE', group: 'A:', summary: 'copy', examples: ['p backup x'] },
    {
      usage: 'get NAME...',
      group: 'A:',
      summary: 'fetch',
      options: {
        '--out DIR': 'where',
        '--key-file FILE': 'key',
        '--watch': 'go on',
        '--tag TAG...': 'tag',
      },
      examples: ['p get a --out b'],
    },
    { usage: 'init [FILE]', group: 'B:', summary: 'begin', examples: ['p init'] },
    {
      usage: 'check-config',
      group: 'B:',
      summary: 'check',
      options: { '--no-secrets': 'skip' },
      examples: ['p check-config'],
    },
    {
      usage: 'ca detach-root FILE',
      group: 'B:',
      summary: 'move',
      examples: ['p ca detach-root x'],
    },
    { usage: 'ca show', group: 'B:', summary: 'show', examples: ['p ca show'] },
  ],
}

t.test('readCommandLine finds the command, its words and its options', async (t) => {
  const table: [line: string, usage: string, words: string[], options?: object][] = [
    ['backup a', 'backup FILE', ['a']],
    ['get a b --out=c', 'get NAME...', ['a', 'b'], { out: 'c' }],
    ['get --watch a --key-file k', 'get NAME...', ['a'], { watch: true, keyFile: 'k' }],
    ['get a -- --out', 'get NAME...', ['a', '--out']],
    ['get --tag x --tag y a', 'get NAME...', ['a'], { tag: ['x', 'y'] }],
    ['init', 'init [FILE]', []],
    ['check-config', 'check-config', []],
    ['check-config --no-secrets', 'check-config', [], { noSecrets: true }],
    ['ca detach-root x', 'ca detach-root FILE', ['x']],
    ['ca show', 'ca show', []],
  ]
  for (const [line, usage, words, options = {}] of table) {
    const read = readCommandLine(line.split(' '), SYNTAX)
    t.match(read, { command: { usage }, words }, line)
    t.same('options' in read && read.options, options, line)
  }
})

t.test('help and version are texts', async (t) => {
  const table: [line: string, text: RegExp][] = [
    ['--version', /^p 1\.2\.3\n$/],
    ['--help', /Does things|does things[\s\S]+A:\n +backup[\s\S]+B:\n +init/],
    ['-h', /^Usage: p /],
    ['help get', /^Usage: p get \[options\] <NAME\.\.\.>\n\nFetch\.[\s\S]+--out <DIR> +where/],
    ['get --help', /\nExamples:\n {2}p get a --out b\n$/],
    ['ca --help', /detach-root[\s\S]+show/],
  ]
  for (const [line, text] of table)
    t.match(readCommandLine(line.split(' '), SYNTAX), { text }, line)
})

t.test('wrong usage names the word that is wrong, and the help to read', async (t) => {
  const table: [line: string, message: string | RegExp][] = [
    ['bakcup', "unknown command 'bakcup' (Did you mean backup?); see p --help"],
    ['backup', "missing required argument 'FILE'; see p backup --help"],
    ['backup a b', /^too many arguments for 'backup'.+; see p backup --help$/],
    ['get a --uot b', "unknown option '--uot' (Did you mean --out?); see p get --help"],
    ['get a --out', "option '--out <DIR>' argument missing; see p get --help"],
    ['init --watch', "unknown option '--watch'; see p init --help"],
    ['check-config --no-secrets=1', /--no-secrets=1.*; see p check-config --help$/],
    ['ca frob', "unknown command 'frob'; see p ca --help"],
    ['ca', /^no command\n\nUsage: p/],
  ]
  for (const [line, message] of table) {
    const error = thrownBy(() => readCommandLine(line.split(' '), SYNTAX))
    t.type(error, UsageError, line)
    t.match(error, { message }, line)
  }
  t.match(
    thrownBy(() => readCommandLine([], SYNTAX)),
    { message: /^no command\n\nUsage: p/ },
  )
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
      new ConfigError('CONFIG_UNREADABLE', '/c does not exist'),
      'p: /c does not exist [CONFIG_UNREADABLE]\n',
    ],
    [
      new ConfigError('CONFIG_INVALID', 'one\ntwo', { faults }),
      'one\ntwo\np: 2 faults in /c.yaml [CONFIG_INVALID]\n',
    ],
    [
      new ConfigError('CONFIG_INVALID', 'one', { faults: faults.slice(1) }),
      'one\np: 1 fault in /c.yaml [CONFIG_INVALID]\n',
    ],
    [
      Object.assign(new Error('no'), { code: 'A_B', action: 'Do this.' }),
      'p: no [A_B]\nDo this.\n',
    ],
    [missing, 'p: /x/y cannot be used: it does not exist [ENOENT]\n'],
    [new AggregateError([new Error('a'), new Error('b')]), 'p: a\np: b\n'],
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

t.test('times, of this machine if they name no zone', async (t) => {
  const HOUR = 3_600_000
  const local = (hours: number, minutes: number, date = 10) =>
    new Date(2030, 0, date, hours, minutes).getTime()
  const noon = local(12, 0)
  for (const [text, time] of [
    ['24h', noon - 24 * HOUR],
    ['7d', noon - 168 * HOUR],
    ['10:03', local(10, 3)],
    ['12:03', local(12, 3, 9)],
    ['2030-01-10', local(0, 0)],
    ['2030-01-09T10:03', local(10, 3, 9)],
    ['2030-01-09 10:03', local(10, 3, 9)],
    ['2030-01-09T10:03:00Z', Date.UTC(2030, 0, 9, 10, 3)],
    ['2030-01-09 10:03:00+01:00', Date.UTC(2030, 0, 9, 9, 3)],
  ] as const)
    t.equal(readTime('--at', text, noon), time, text)
  for (const text of [
    ...['', '24', 'yesterday', '-1h', '1w', '24:00', '10:60', '10:3'],
    ...['2030', '2030-13-01', '2030-02-30', '2030-02-30T10:03', '2030-1-31', '2030-01-31T25:00'],
  ])
    t.throws(() => readTime('--at', text, noon), { message: /^--at must be a time/ }, text)
})

t.test('a choice is one of its words', async (t) => {
  t.equal(readChoice('--proxy', 'nginx', ['nginx', 'caddy']), 'nginx')
  t.equal(readChoice('--proxy', undefined, ['nginx', 'caddy']), undefined)
  for (const [text, message] of [
    ['apache', '--proxy must be one of nginx, caddy'],
    ['ngnix', '--proxy must be one of nginx, caddy; did you mean nginx?'],
    ['', '--proxy must be one of nginx, caddy'],
  ] as const)
    t.throws(() => readChoice('--proxy', text, ['nginx', 'caddy']), new UsageError(message))
})

function thrownBy(action: () => unknown): unknown {
  try {
    return action()
  } catch (error) {
    return error
  }
}
