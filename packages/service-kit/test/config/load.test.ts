// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the placeholders are what is tested
import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import {
  ConfigError,
  type ConfigFault,
  Duration,
  FilePath,
  loadConfig,
  Secret,
} from '../../src/config/index.ts'
import { locateConfig } from '../../src/config/load.ts'
import { applyToEach } from '../../src/rules.ts'

const CANARY = 'canary-3f9a1c7e5b2d4806'

const Schema = Type.Object({
  server: Type.Object({
    host: Type.String({ default: '127.0.0.1' }),
    port: Type.Integer({ default: 7401, minimum: 1, maximum: 65535 }),
    tls: Type.Boolean({ default: true }),
    dataDir: FilePath('A folder.', { default: 'data' }),
    timeout: Duration({ default: '30s' }),
  }),
  log: Type.Optional(Type.Union([Type.Literal('info'), Type.Literal('debug')])),
  auth: Type.Optional(
    Type.Object({
      key: Type.Optional(Secret('A key.', { minLength: 16 })),
      keys: Type.Optional(
        Type.Array(Type.Object({ name: Type.String(), key: Secret('A key.', { minLength: 16 }) }), {
          minItems: 1,
        }),
      ),
    }),
  ),
  issuers: Type.Optional(
    Type.Record(
      Type.String({ pattern: '^[a-z]+$' }),
      Type.Union([
        Type.Object({ kind: Type.Literal('ca'), life: Duration({ default: '7d' }) }),
        Type.Object({ kind: Type.Literal('acme'), token: Secret('A key.') }),
      ]),
    ),
  ),
  names: Type.Optional(
    Type.Union([Type.String(), Type.Array(Type.String(), { uniqueItems: true })]),
  ),
})

const DEFAULTS = { host: '127.0.0.1', port: 7401, tls: true, timeout: 30_000 }

function write(t: Test, yaml: string, files: Record<string, string> = {}) {
  const folder = t.testdir({ 'config.yaml': yaml, ...files })
  return { folder, file: join(folder, 'config.yaml') }
}

async function faultsOf(file: string, env: Record<string, string> = {}) {
  const error = await loadConfig({ schema: Schema, file, env }).catch((error) => error)
  if (!(error instanceof ConfigError)) throw error
  return error
}

const loaded: [what: string, yaml: string, expected: object, files?: Record<string, string>][] = [
  ['nothing at all', '', {}],
  ['only a comment', '# nothing\n', {}],
  [
    'numbers and booleans as they are',
    'server: {port: 1, tls: false}',
    { server: { port: 1, tls: false } },
  ],
  ['a variable inside a string', 'server: {host: "a-${HOST}.b"}', { server: { host: 'a-h.b' } }],
  ['a variable for a number', 'server: {port: "${PORT}"}', { server: { port: 81 } }],
  ['a variable for a boolean', 'server: {tls: "${OFF}"}', { server: { tls: false } }],
  ['a doubled dollar', 'server: {host: "a$${HOST}$$b$c"}', { server: { host: 'a${HOST}$b$c' } }],
  [
    'a variable is not expanded twice',
    'server: {host: "${NESTED}"}',
    { server: { host: '${HOST}' } },
  ],
  ['500ms', 'server: {timeout: 500ms}', { server: { timeout: 500 } }],
  ['5m', 'server: {timeout: 5m}', { server: { timeout: 300_000 } }],
  ['2h', 'server: {timeout: 2h}', { server: { timeout: 7_200_000 } }],
  ['7d', 'server: {timeout: 7d}', { server: { timeout: 604_800_000 } }],
  ['0s', 'server: {timeout: 0s}', { server: { timeout: 0 } }],
  [
    'a union by its discriminator',
    'issuers: {x: {kind: ca}}',
    { issuers: { x: { kind: 'ca', life: 604_800_000 } } },
  ],
  ['a union of a scalar and a list', 'names: [a, b]', { names: ['a', 'b'] }],
  ['an alias', 'log: &l info\nnames: [*l]', { log: 'info', names: ['info'] }],
  ['a secret', `auth: {key: ${CANARY}}`, { auth: { key: CANARY } }],
  ['a secret from a file', 'auth: {keyFile: k}', { auth: { key: CANARY } }, { k: `${CANARY}\n` }],
  [
    'a secret from a file with CRLF',
    'auth: {keyFile: k}',
    { auth: { key: CANARY } },
    { k: `${CANARY}\r\n` },
  ],
  [
    'one newline is trimmed, no more',
    'auth: {keyFile: k}',
    { auth: { key: ` ${CANARY}\n` } },
    { k: ` ${CANARY}\n\n` },
  ],
  [
    'a file for a secret inside a list',
    'auth: {keys: [{name: a, keyFile: k}]}',
    { auth: { keys: [{ name: 'a', key: CANARY }] } },
    { k: CANARY },
  ],
  [
    'a file for a secret inside a union',
    'issuers: {x: {kind: acme, tokenFile: k}}',
    { issuers: { x: { kind: 'acme', token: CANARY } } },
    { k: CANARY },
  ],
  [
    'a file that a variable names',
    'auth: {keyFile: "${HOST}"}',
    { auth: { key: CANARY } },
    { h: CANARY },
  ],
]

t.test('loadConfig loads', async (t) => {
  const env = { HOST: 'h', PORT: '81', OFF: 'false', NESTED: '${HOST}' }
  for (const [what, yaml, { server = {}, ...rest }, files] of loaded as [
    string,
    string,
    { server?: object },
    Record<string, string>?,
  ][])
    t.test(what, async (t) => {
      const { folder, file } = write(t, yaml, files)
      const { value } = await loadConfig({ schema: Schema, file, env })
      t.strictSame(value, {
        server: { ...DEFAULTS, dataDir: join(folder, 'data'), ...server },
        ...rest,
      })
    })

  t.test('paths from the folder of the file, and the files that secrets came from', async (t) => {
    const yaml = 'server: {dataDir: ../d}\nauth: {keyFile: k, keys: [{name: a, keyFile: ./k}]}'
    const { folder, file } = write(t, yaml, { k: CANARY })
    const { value, ...loaded } = await loadConfig({ schema: Schema, file, env })
    t.equal(value.server.dataDir, join(folder, '../d'))
    t.strictSame(loaded, { file, secretFiles: [join(folder, 'k')], absent: 0, warnings: [] })
  })

  t.test(
    'a variable that looks like a number as a string, where a string is expected',
    async (t) => {
      const { file } = write(t, 'server: {host: "${PORT}"}')
      t.equal((await loadConfig({ schema: Schema, file, env })).value.server.host, '81')
    },
  )
})

const faulty: [what: string, yaml: string, faults: string[], files?: Record<string, string>][] = [
  [
    'an unknown key',
    'server:\n  prot: 1',
    ['2:3 /server/prot is not a known key, did you mean port?'],
  ],
  ['an unknown key like nothing', 'colour: 1', ['1:1 /colour is not a known key']],
  [
    'the twin of what is not secret',
    'server: {hostFile: x}',
    ['1:10 /server/hostFile is not a known key'],
  ],
  [
    'a misspelt twin',
    `auth: {keyfile: ${CANARY}}`,
    [
      '1:8 /auth/keyfile is not a known key, did you mean keyFile?',
      '1:8 /auth/keyFile names a file that does not exist (ENOENT)',
    ],
  ],
  [
    'a misspelt section and what is wrong in it',
    'sevrer:\n  port: many\n  hots: a',
    [
      '1:1 /sevrer is not a known key, did you mean server?',
      '2:9 /server/port must be an integer',
      '3:3 /server/hots is not a known key, did you mean host?',
    ],
  ],
  [
    'a doubled key and what else is wrong',
    'log: info\nlog: debug\nserver: {port: many}',
    ['2:1  is not valid YAML: duplicate key', '3:16 /server/port must be an integer'],
  ],
  ['swapped letters', 'sevrer: {}', ['1:1 /sevrer is not a known key, did you mean server?']],
  [
    'a key of another variant',
    'issuers: {x: {kind: ca, token: y}}',
    ['1:25 /issuers/x/token is not a known key'],
  ],
  [
    'a name that does not match',
    'issuers: {X1: {kind: ca}}',
    ['1:11 /issuers/X1 is not a known key: names match ^[a-z]+$'],
  ],
  ['a wrong type', 'server:\n  port: many', ['2:9 /server/port must be an integer']],
  ['a fraction', 'server: {port: 1.5}', ['1:16 /server/port must be an integer']],
  ['a string for a boolean', 'server: {tls: "yes"}', ['1:15 /server/tls must be true or false']],
  [
    'a number for a string',
    'server: {host: 1}',
    ['1:16 /server/host must be a string: put it in quotes'],
  ],
  ['a list for a string', 'server: {host: [a]}', ['1:10 /server/host must be a string']],
  ['a string for a mapping', 'server: x', ['1:9 /server must be a mapping of keys to values']],
  ['a mapping for a list', 'auth: {keys: {}}', ['1:8 /auth/keys must be a list']],
  ['a list as the file', '- a', ['1:1  must be a mapping of keys to values']],
  ['a value that is too large', 'server: {port: 65536}', ['1:16 /server/port must be <= 65535']],
  ['an empty list', 'auth: {keys: []}', ['1:8 /auth/keys must not have fewer than 1 items']],
  ['a doubled item', 'names: [a, a]', ['1:1 /names must not have duplicate items']],
  ['no such literal', 'log: loud', ['1:6 /log must be "info" or "debug"']],
  ['no such variant', 'names: {a: 1}', ['1:1 /names must be a string or a list']],
  [
    'a duration without a unit',
    'server: {timeout: 30}',
    ['1:19 /server/timeout must be a duration such as 30s, 5m, 2h or 7d'],
  ],
  [
    'a duration of months',
    'server: {timeout: 1mo}',
    ['1:19 /server/timeout must be a duration such as 30s, 5m, 2h or 7d'],
  ],
  ['a key without a value', 'server:', ['1:8 /server is empty: give it a value or remove the key']],
  [
    'a missing member of a list item',
    'auth:\n  keys:\n    - key: 0123456789abcdef',
    ['3:7 /auth/keys/0/name is missing'],
  ],
  [
    'an unknown tag of a union',
    'issuers: {x: {kind: cax}}',
    ['1:15 /issuers/x/kind must be "ca" or "acme"'],
  ],
  [
    'a missing tag of a union',
    'issuers: {x: {life: 1d}}',
    ['1:11 /issuers/x/kind must be "ca" or "acme"'],
  ],
  ['a missing secret', 'issuers:\n  x: {kind: acme}', ['2:3 /issuers/x/token is missing']],
  [
    'an unset variable',
    'server:\n  host: "${NOPE}"',
    ['2:9 /server/host needs ${NOPE}, which is not set ($$ stands for a plain $)'],
  ],
  [
    'a shell default',
    'server: {host: "${A:-b}"}',
    [
      '1:16 /server/host needs an environment variable, which is not written as ${NAME} ($$ stands for a plain $)',
    ],
  ],
  [
    'an open brace',
    'server: {host: "${A"}',
    [
      '1:16 /server/host needs an environment variable, which is not written as ${NAME} ($$ stands for a plain $)',
    ],
  ],
  [
    'a secret and its file',
    'auth: {key: 0123456789abcdef, keyFile: k}',
    ['1:31 /auth/keyFile is given together with key: keep one of the two'],
    { k: CANARY },
  ],
  [
    'a secret file that is missing',
    'auth: {keyFile: none}',
    ['1:8 /auth/keyFile names a file that does not exist (ENOENT)'],
  ],
  [
    'a secret file that is a folder',
    'auth: {keyFile: .}',
    ['1:8 /auth/keyFile names a file that is a folder (EISDIR)'],
  ],
  [
    'a secret file that is empty',
    'auth: {keyFile: k}',
    ['1:8 /auth/keyFile names a file that is empty'],
    { k: '\n' },
  ],
  [
    'a secret file that is large',
    'auth: {keyFile: k}',
    ['1:8 /auth/keyFile names a file of 65537 bytes, with a limit of 65536'],
    { k: 'x'.repeat(65_537) },
  ],
  [
    'a secret file with too little',
    'auth: {keyFile: k}',
    ['1:8 /auth/keyFile must not have fewer than 16 characters'],
    { k: 'short' },
  ],
  ['a key that is a list', '? [a]\n: 1', ['1:1  has a key that is not a plain word']],
  ['a tab', 'server:\n\tport: 1', ['2:1  is not valid YAML: tab as indent']],
  ['a doubled key', 'log: info\nlog: debug', ['2:1  is not valid YAML: duplicate key']],
  ['two documents', 'log: info\n---\nlog: info', ['2:1  is not valid YAML: multiple docs']],
  ['an unknown tag', 'log: !secret info', ['1:6  is not valid YAML: tag resolve failed']],
  ['an alias of nothing', 'log: *x', ['1:1 /log is an alias of nothing, or one too many']],
  ['a prototype', '__proto__: {a: 1}', ['1:1 /__proto__ is not a known key']],
  ['a slash and a tilde in a key', '"a/b~": 1', ['1:1 /a~1b~0 is not a known key']],
]

t.test('loadConfig refuses', async (t) => {
  for (const [what, yaml, faults, files] of faulty)
    t.test(what, async (t) => {
      const { file } = write(t, yaml, files)
      const error = await faultsOf(file)
      t.equal(error.code, 'CONFIG_INVALID')
      t.strictSame(error.message.replaceAll(`${file}:`, '').split('\n'), faults)
    })

  t.test('everything at once, in the order of the file, with file, line and column', async (t) => {
    const { file } = write(
      t,
      'log: loud\nserver:\n  port: x\n  host: 1\nauth:\n  keys:\n    - {}\n',
    )
    const { faults, message } = await faultsOf(file)
    t.strictSame(
      faults.map(({ line, path }) => `${line} ${path}`),
      ['1 /log', '3 /server/port', '4 /server/host', '7 /auth/keys/0/key', '7 /auth/keys/0/name'],
    )
    t.match(faults[1], { file, line: 3, column: 9, message: 'must be an integer' })
    t.ok(message.startsWith(`${file}:1:6 /log must be`))
  })

  t.test('and never shows a value', async (t) => {
    const yaml = [
      `server: {port: ${CANARY}, host: [${CANARY}], tls: ${CANARY}, timeout: ${CANARY}}`,
      `log: ${CANARY}`,
      `auth: {key: [${CANARY}], keys: ${CANARY}}`,
      `issuers: {x: {kind: ${CANARY}}, y: {kind: acme, token: "\${${CANARY.replaceAll('-', '_')}}"}}`,
    ].join('\n')
    const { message, faults } = await faultsOf(write(t, yaml).file)
    t.equal(faults.length, 9)
    t.notMatch(message.replaceAll('_', '-'), CANARY)
    for (const broken of [
      `a: @${CANARY}`,
      `a: "\\q${CANARY}`,
      `${CANARY}: [`,
      `!${CANARY} a`,
      `%${CANARY}`,
    ])
      t.notMatch((await faultsOf(write(t, broken).file)).message, CANARY, broken)
  })

  t.test(
    'what a check over several keys says, at the key or the nearest one around it',
    async (t) => {
      const { file } = write(t, 'server:\n  port: 80\n')
      const rule = () => [
        { path: '/server/tls', message: 'must be false on port 80' },
        { path: '/server/port', message: 'is for plain http' },
        { path: '/auth/key', message: 'is needed' },
      ]
      const error = await loadConfig({ schema: Schema, file, env: {}, rules: [rule] }).catch(
        (error) => error,
      )
      t.strictSame(error.message.replaceAll(`${file}:`, '').split('\n'), [
        '1:1 /auth/key is needed',
        '1:1 /server/tls must be false on port 80',
        '2:9 /server/port is for plain http',
      ])
    },
  )
})

t.test('rules check the known parts of a value with faults', async (t) => {
  type Value = { server: { port: number; host: string }; auth?: { keys?: { name: string }[] } }
  const rules = [
    ({ server }: Value) => [{ path: '/server/host', message: `is ${server.host}` }],
    ({ server }: Value) => [{ path: '/server/port', message: `is ${server.port}` }],
    ({ auth }: Value) =>
      applyToEach(auth?.keys ?? [], '/auth/keys', [
        ({ name }) => [{ path: '/name', message: `is ${name}` }],
      ]),
    ({ auth }: Value) => [{ path: '/auth', message: `has ${auth?.keys?.map((key) => key.name)}` }],
  ]
  const told = async (yaml: string, options: object = {}) => {
    const { file } = write(t, yaml)
    const loading = loadConfig({ schema: Schema, file, env: {}, rules, ...options })
    const error = await loading.catch((error) => error)
    return (error.faults as ConfigFault[]).map(({ path, message }) => `${path} ${message}`)
  }
  const key = 'key: 0123456789abcdef'
  t.strictSame(
    await told(`server: {port: many}\nauth: {keys: [{name: a, ${key}}, 1, {${key}}]}`),
    [
      '/server/host is 127.0.0.1',
      '/server/port must be an integer',
      '/auth/keys/0/name is a',
      '/auth/keys/1 must be a mapping of keys to values',
      '/auth/keys/2/name is missing',
    ],
    'a rule that reads what has a fault says nothing, also not of the whole list',
  )
  t.strictSame(
    await told('auth: {key: "${NOPE}", keys: [{name: a, keyFile: none}]}', {
      withoutSecrets: true,
    }),
    ['/auth has a', '/server/host is 127.0.0.1', '/server/port is 7401', '/auth/keys/0/name is a'],
    'absent secrets are passed over, and everything else is judged',
  )
})

t.test('members that are written together', async (t) => {
  const schema = Type.Object(
    {
      ...Type.Partial(Type.Object({ key: Secret('A key.'), token: Type.String() })).properties,
      user: Type.Optional(Type.String()),
      password: Type.Optional(Secret('A key.')),
      labels: Type.Optional(
        Type.Record(Type.String({ pattern: '^[a-z]+$' }), Type.String(), {
          removed: { own: 'is ours' },
        }),
      ),
    },
    { exactlyOne: [['key', 'token']], needs: { user: ['password'], password: ['user'] } },
  )
  const table: [yaml: string, faults: string[]][] = [
    ['key: a', []],
    ['keyFile: secret', []],
    ['{}', ['1:1  needs key or token']],
    ['token: b\nkeyFile: secret', ['1:1 /token is given together with key: keep one of the two']],
    ['key: a\nuser: u', ['2:1 /user needs password']],
    ['key: a\npasswordFile: secret', ['2:1 /password needs user']],
    ['key: a\nuser: u\npasswordFile: secret\nlabels: { a: b }', []],
    ['key: a\nlabels: { own: b }', ['2:11 /labels/own is ours']],
  ]
  for (const [yaml, faults] of table) {
    const { file } = write(t, yaml, { secret: 'secret' })
    const error = await loadConfig({ schema, file, env: {} }).catch((reason) => reason)
    const messages = error instanceof ConfigError ? error.message : ''
    for (const fault of faults) t.match(messages, fault, yaml)
    t.equal(error.faults?.length ?? 0, faults.length, `${yaml}: ${messages}`)
  }
})

t.test('members that exclude each other, or are needed by others', async (t) => {
  const text = Type.String()
  const members = { mode: text, hash: text, key: Secret('A key.'), salt: text, note: text }
  const schema = Type.Object(Type.Partial(Type.Object(members)).properties, {
    atLeastOne: [['key', 'hash', 'mode']],
    needs: { salt: ['hash', 'note'] },
    excludes: { key: ['hash', 'salt'] },
    demands: [
      {
        when: { required: ['mode'], properties: { mode: { const: 'strict' } } },
        schema: { required: ['note'], properties: { note: { not: { const: 'no' } } } },
        path: '/note',
        message: 'has to say why',
      },
    ],
  })
  type Value = { [name in keyof typeof members]?: string }
  const ALL = 'mode hash key salt note'
  const both = 'is given together with key: keep one of the two'
  const table: [yaml: string, faults: string[], rest: string][] = [
    ['note: a', ['1:1  needs key or hash or mode'], 'salt note'],
    ['hash: a', [], ALL],
    ['hash: a\nkeyFile: secret', [`1:1 /hash ${both}`], 'mode salt note'],
    ['key: a\nsalt: b\nhash: a', [`2:1 /salt ${both}`, `3:1 /hash ${both}`], 'mode note'],
    ['mode: a\nsalt: b', ['2:1 /salt needs hash and note'], 'mode key salt'],
    ['mode: strict', ['1:1 /note has to say why'], ALL],
    ['mode: strict\nnote: no', ['2:7 /note has to say why'], ALL],
    ['mode: strict\nnote: yes!', [], ALL],
    ['mode: []\nhash: a', ['1:1 /mode must be a string'], 'hash key salt note'],
  ]
  for (const [yaml, faults, rest] of table) {
    const { file } = write(t, yaml, { secret: 'secret' })
    const judged: string[] = []
    const rules = Object.keys(members).map((key) => (value: Value) => {
      void value[key as keyof Value]
      judged.push(key)
      return []
    })
    const error = await loadConfig({ schema, file, env: {}, rules }).catch((reason) => reason)
    const lines = error instanceof ConfigError ? error.message.split('\n') : []
    t.strictSame(
      lines.map((line) => line.slice(file.length + 1)),
      faults,
      yaml,
    )
    t.strictSame(judged.join(' '), rest, yaml)
  }
})

t.test('without secrets', async (t) => {
  const { file } = write(t, 'auth: {key: "${NOPE}", keys: [{name: a, keyFile: no/file}]}')
  const options = { schema: Schema, file, env: {}, withoutSecrets: true }
  t.equal((await loadConfig(options)).absent, 2, 'tells how many were passed over')
  for (const [yaml, fault] of [
    ['auth: {keyFile: .}', /is a folder/],
    ['auth: {keyFile: k}', /is empty/],
    ['server: {host: "${NOPE}"}', /is not set/],
    ['auth: {key: "${A:-b}"}', /is not written as/],
  ] as const) {
    const { file } = write(t, yaml, { k: '' })
    await t.rejects(loadConfig({ ...options, file }), { message: fault }, yaml)
  }
})

t.test('bounds', async (t) => {
  t.test('aliases: a bomb ends in faults', async (t) => {
    const { file } = write(t, `log: &l info\nnames: [${Array(101).fill('*l')}]`)
    t.match((await faultsOf(file)).message, '/names/100 is an alias of nothing, or one too many')
    t.match((await faultsOf(write(t, 'names: &n [*n]').file)).code, 'CONFIG_INVALID')
  })
  t.test('depth: a tower of brackets ends in faults', async (t) => {
    t.match(await faultsOf(write(t, '['.repeat(100_000)).file), { code: 'CONFIG_INVALID' })
  })
  t.test('size: 1 MiB and no more', async (t) => {
    const { file } = write(t, `#${'x'.repeat(1_048_576)}`)
    t.match(await faultsOf(file), { code: 'CONFIG_UNREADABLE', message: /larger than/ })
  })
  t.test('bytes: UTF-8 alone, with the place of the first other one', async (t) => {
    const rows: [bytes: Buffer, place: string][] = [
      [Buffer.from('names: a # \xfc\n', 'latin1'), '1:12'],
      [Buffer.concat([Buffer.from('log: info\nnames: "ü'), Buffer.of(0xc3, 0x22)]), '2:10'],
      [Buffer.concat([Buffer.from('names: "'), Buffer.of(0xed, 0xa0, 0x80, 0x22)]), '1:9'],
    ]
    const { file } = write(t, '')
    for (const [bytes, place] of rows) {
      writeFileSync(file, bytes)
      t.match((await faultsOf(file)).message, `${file}:${place}  is not valid UTF-8`)
    }
    writeFileSync(file, '\ufeffnames: "\ufffd ü"\n')
    t.match(await loadConfig({ schema: Schema, file, env: {} }), { value: { names: '\ufffd ü' } })
  })
  t.test('faults: a hundred and no more', async (t) => {
    const { file } = write(t, Array.from({ length: 500 }, (_, i) => `k${i}: 1`).join('\n'))
    t.equal((await faultsOf(file)).faults.length, 100)
  })
  t.test('any text is a configuration or a list of faults', async (t) => {
    const { file } = write(t, '')
    const word = fc.constantFrom(
      'server',
      'port',
      ':',
      ' ',
      '\n',
      '  ',
      '-',
      '[',
      ']',
      '{',
      '}',
      '&a',
      '*a',
      '!',
      '"',
      '$',
      '${A}',
      '1',
      '|',
      '?',
      '\t',
      ',',
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(word).map((words) => words.join('')),
        async (yaml) => {
          writeFileSync(file, yaml)
          await loadConfig({ schema: Schema, file, env: {} }).catch((error) => {
            if (!(error instanceof ConfigError) || error.faults.length === 0) throw error
          })
        },
      ),
      { numRuns: 300 },
    )
  })
})

t.test('a file that cannot be read', async (t) => {
  const folder = t.testdir({})
  t.match(await faultsOf(join(folder, 'none.yaml')), {
    code: 'CONFIG_UNREADABLE',
    faults: { length: 0 },
  })
  t.match(await faultsOf(folder), { code: 'CONFIG_UNREADABLE', message: /EISDIR/ })
})

t.test('a pipe is read to its end, and what nobody writes to is not waited for', async (t) => {
  const folder = t.testdir({})
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const load = (file: string) => loadConfig({ schema: Schema, file, env: {} })
  t.match((await load(pipe)).value, { server: { port: 7401 } }, 'it is empty')
  const writer = spawn('sh', [
    '-c',
    `{ printf 'server: '; sleep 0.2; echo '{ port: 1 }'; } > ${pipe}`,
  ])
  // It opens the pipe when it is read.
  const loaded = async (): Promise<unknown> => {
    const { value } = await load(pipe)
    return value.server.port === 1 ? value : loaded()
  }
  t.match(await loaded(), { server: { port: 1 } })
  writer.kill()
  const named = join(folder, 'config.yaml')
  writeFileSync(named, `auth: { keyFile: ${pipe} }`)
  t.match(await faultsOf(named), { faults: [{ message: 'names a pipe or a device, not a file' }] })
  writeFileSync(named, `#${'x'.repeat(1_048_576)}`)
  for (const file of [named, '/dev/zero'])
    await t.rejects(load(file), { code: 'CONFIG_UNREADABLE', message: /larger than 1048576/ })
})

t.test('locateConfig', async (t) => {
  const folder = t.testdir({ with: { 'config.yaml': '' }, without: {} })
  const name = 'no-such-service'
  const before = process.cwd()
  t.teardown(() => process.chdir(before))

  process.chdir(join(folder, 'with'))
  const env = { GATEHOUSE_CONFIG: '/env.yaml' }
  t.equal(await locateConfig({ flag: '/flag.yaml', env, name }), '/flag.yaml', 'the flag first')
  t.equal(await locateConfig({ env, name }), '/env.yaml', 'then the environment')
  const here = join(process.cwd(), 'config.yaml')
  t.equal(await locateConfig({ env: { GATEHOUSE_CONFIG: '' }, name }), here, 'then the folder')

  process.chdir(join(folder, 'without'))
  await t.rejects(locateConfig({ env: {}, name }), {
    code: 'CONFIG_UNREADABLE',
    message: /gatehouse\/no-such-service\/config\.yaml/,
  })
})
