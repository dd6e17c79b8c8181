import { durationText } from '@gatehouse/service-kit/config'
import t from 'tap'
import { parse } from 'yaml'
import { Draft } from '../src/draft.ts'
import { printMigrated } from '../src/migrate.ts'
import { goDurationMs, readYamlSettings, SourceConfig, wholeSeconds } from '../src/source.ts'
import { remarkOnUnused, rowOf } from '../src/table.ts'

const TEXTS = { title: 'The configuration, made of x', steps: ['Start it.'] }
const setting = (name: string, line: number, ...values: string[]) => ({
  ...{ name, spelling: name.replaceAll('-', '_') },
  ...{ line, values },
})

t.test('a draft says where each value comes from, and what is left to do', async (t) => {
  const draft = new Draft()
  draft.set(['server', 'port'], 80, setting('port', 3, '80'))
  draft.set(['server', 'names'], ['a', 'b'], setting('names', 4, 'a', 'b'))
  draft.secret(['server', 'keyFile'], 'key', setting('the-key', 5, 'secret'))
  draft.set(['title'], `$\{HOME}: "x" # y`)
  draft.todo(['server', 'absent', 0], 'decide.')
  draft.remark(setting('gone', 1, 'secret'), 'is not needed\nno: 1')
  const yaml = draft.print(TEXTS)
  t.equal(
    yaml,
    `# The configuration, made of x
# What to do next:
# 1. Write each secret to its file, with mode 0600: the_key (line 5) to key.
# 2. Decide at each place that is marked TODO. check-config refuses the file until then.
# 3. Start it.

# TODO: decide.
server:
  port: 80 # port, line 3
  # names, line 4
  names: [a, b]
  keyFile: key # the_key, line 5
title: '$$\{HOME}: "x" # y'

# Without a counterpart here:
# line 1, gone: is not needed no: 1
`,
  )
  t.strictSame(parse(yaml).server, { port: 80, names: ['a', 'b'], keyFile: 'key' })
  t.ok(draft.isMarked(['server', 'port']) === false && draft.isMarked(['server', 'absent']))
})

t.test('comments are broken between words, at 100 characters at most', async (t) => {
  for (let length = 1; length < 30; length++) {
    const draft = new Draft()
    draft.remark(setting('x', 1), `${'y'.repeat(length)} `.repeat(20))
    const lines = draft.print(TEXTS).split('\n')
    t.ok(Math.max(...lines.map((line) => line.length)) <= 100, `words of ${length} characters`)
  }
})

t.test('what is to be decided is the exit code', async (t) => {
  const process = {
    exitCode: undefined,
    said: '',
    stderr: { write: (text: string) => (process.said += text) },
  }
  const target = process as unknown as Parameters<typeof printMigrated>[1] & { said: string }
  t.equal(printMigrated({ yaml: 'a: 1\n', todos: 0 }, target), 'a: 1\n')
  t.strictSame([target.exitCode, target.said], [undefined, ''])
  printMigrated({ yaml: '', todos: 1 }, target)
  t.match([target.exitCode, target.said], [3, /^1 place is marked TODO/])
  target.said = ''
  printMigrated({ yaml: '', todos: 2 }, target)
  t.match([target.exitCode, target.said], [3, /^2 places are marked TODO/])
})

t.test('settings of a YAML file have names with the numbers of items, and lines', async (t) => {
  const text = `a:\n  b: 007\n  empty:\nlist:\n  - { name: x, in: [1, two] }\n  - name: y\nnone: []\n`
  t.strictSame(
    readYamlSettings(text, 'f').map(({ name, spelling, values, line }) => [
      name,
      spelling,
      values,
      line,
    ]),
    [
      ['a.b', 'a.b', ['007'], 2],
      ['list.0.name', 'list[0].name', ['x'], 5],
      ['list.0.in', 'list[0].in', ['1', 'two'], 5],
      ['list.1.name', 'list[1].name', ['y'], 6],
      ['none', 'none', [], 7],
    ],
  )
  t.strictSame(new SourceConfig(readYamlSettings(text, 'f')).itemsOf('list'), [0, 1])
  for (const wrong of ['a: [secret', '- secret', 'secret', ''])
    t.throws(() => readYamlSettings(wrong, 'f'), {
      code: 'CONFIG_NOT_THEIRS',
      message: /^f:\d+ (?!.*secret)/,
    })
})

t.test('the last of several counts, and an empty one is missing', async (t) => {
  const source = new SourceConfig([
    setting('a', 1, 'x'),
    setting('a', 2, 'true'),
    setting('b', 3, ''),
  ])
  t.strictSame(
    [source.text('a'), source.ifOn('a')?.line, source.take('b'), source.list('c')],
    ['true', 2, undefined, []],
  )
})

t.test('durations of Go', async (t) => {
  const table: [string, string | undefined][] = [
    ['168h0m0s', '7d'],
    ['1h30m', '90m'],
    ['1.5h', '90m'],
    ['90s', '90s'],
    ['2500ms', '2s'],
    ['3600000000000', '1h'],
    ['x', undefined],
    ['1h x', undefined],
    ['', undefined],
  ]
  for (const [go, ours] of table) {
    const ms = goDurationMs(go)
    t.equal(ms === undefined ? undefined : durationText(wholeSeconds(ms)), ours, go)
  }
})

t.test('what is not used is explained, and what may keep people out is told', async (t) => {
  const table = [
    { names: ['used'], becomes: '`a`' },
    { names: ['off', 'list.$.x'], note: 'no `need`' },
    { names: ['limit', 'limit.*'], note: 'cannot be', restricts: true },
  ]
  const source = new SourceConfig([
    setting('used', 1, 'x'),
    setting('list.3.x', 2, 'y'),
    setting('limit', 3, 'z'),
    setting('limit.any', 4, 'false'),
    setting('lmit', 5, 'z'),
    setting('limit.none', 6, ''),
  ])
  source.take('used')
  const draft = new Draft()
  const restrictions = remarkOnUnused(source, draft, table)
  t.strictSame(
    restrictions.map(({ name }) => name),
    ['limit', 'lmit'],
  )
  t.match(
    draft.print(TEXTS),
    /line 2, list\.3\.x: no need\n.*\n.*\n.*line 5, lmit: is not a known setting; did you mean limit\?/,
  )
  t.equal(rowOf(table, 'list.x.x'), undefined)
})
