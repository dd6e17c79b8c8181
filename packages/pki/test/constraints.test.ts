import t from 'tap'
import { context, type Der, element, sequence } from '../src/der.ts'
import { createRoot, parseName, readConstraints } from '../src/index.ts'
import { constraintsOf, DAY, makeUpper, NOW } from './helpers.ts'

const root = await createRoot({ commonName: 'Root', now: NOW })
const authority = (...texts: string[]) =>
  makeUpper(root, 90 * DAY, texts.length > 0 ? constraintsOf(texts) : undefined).certificate
const TEN = '#0a000000ff000000'

t.test('what name constraints permit', async (t) => {
  const table: [constraints: string[], text: string, yes: string[], no: string[]][] = [
    [[], '', ['a.test', '*.test', '10.0.0.1', '::1'], []],
    [
      ['+corp.example'],
      'only corp.example, *.corp.example, =**.corp.example',
      ['corp.example', 'a.b.corp.example', '*.corp.example', '*.a.corp.example', '11.0.0.1', '::1'],
      ['example', '*.example', 'xcorp.example', 'corp.example.test', 'a.test'],
    ],
    [
      ['+CORP.Example'],
      'only corp.example, *.corp.example, =**.corp.example',
      ['corp.example'],
      [],
    ],
    [
      ['+.corp.example'],
      'only *.corp.example, =**.corp.example',
      ['a.corp.example', '*.corp.example'],
      ['corp.example'],
    ],
    [['+'], 'only *', ['a.test', '10.0.0.1'], []],
    [['-'], 'all but *', ['10.0.0.1', '::1'], ['a.test', '*.a.test']],
    [
      ['-corp.example'],
      'all but corp.example, *.corp.example, =**.corp.example',
      ['a.test', 'xcorp.example', '10.0.0.1', '*.test'],
      ['corp.example', 'a.corp.example', '*.corp.example', '*.example'],
    ],
    [
      ['-.corp.example'],
      'all but corp.example, *.corp.example, =**.corp.example',
      [],
      ['corp.example'],
    ],
    [
      ['+corp.example', '-x.corp.example'],
      'only corp.example, *.corp.example, =**.corp.example; all but x.corp.example, *.x.corp.example, =**.x.corp.example',
      ['a.corp.example', '*.a.corp.example'],
      ['x.corp.example', 'a.x.corp.example', '*.corp.example'],
    ],
    [[`+${TEN}`], 'only 10.0.0.0/8', ['10.1.2.3', 'a.test'], ['11.0.0.1', '::1', 'a00::1']],
    [['+#0a010203ff000000'], 'only 10.0.0.0/8', ['10.9.9.9'], ['11.0.0.1']],
    [[`-${TEN}`], 'all but 10.0.0.0/8', ['11.0.0.1', '::1', 'a.test'], ['10.0.0.1']],
    [['-#0000000000000000'], 'all but 0.0.0.0/0', ['::1'], ['10.0.0.1']],
    [['+O=Corp'], 'only ', ['a.test', '10.0.0.1'], []],
  ]
  for (const [constraints, text, yes, no] of table) {
    const read = readConstraints([authority(...constraints), root.certificate])
    const what = constraints.join(' ')
    t.equal(read.text, text, what)
    t.equal(read.isSubjectLimited, what.includes('O='), what)
    for (const name of yes) t.ok(read.permits(parseName(name)), `${what}: ${name}`)
    for (const name of no) t.notOk(read.permits(parseName(name)), `${what}: not ${name}`)
  }
})

t.test('those of every authority of a chain count', async (t) => {
  const { permits } = readConstraints([authority('+a.test', '+b.test'), authority('-b.test')])
  t.strictSame(
    ['a.test', 'b.test', 'c.test'].map((name) => permits(parseName(name))),
    [true, false, false],
  )
})

t.test('constraints that cannot be read are refused', async (t) => {
  for (const constraints of [
    ['+a_b.test'],
    ['-a b'],
    ['+#0a000000ff00ff00'],
    ['+#0a0000ff0000'],
    ['-#'],
  ])
    t.throws(
      () => readConstraints([authority(...constraints)]),
      { code: 'PKI_CA_INVALID' },
      constraints.join(),
    )
})

t.test('minimum and maximum have no meaning, so others than 0 are refused', async (t) => {
  const table: [what: string, isRead: boolean, ...range: Der[]][] = [
    ['neither', true],
    ['a minimum of 0', true, element(0x80, Buffer.of(0))],
    ['a minimum of 1', false, element(0x80, Buffer.of(1))],
    ['a maximum of 0', false, element(0x81, Buffer.of(0))],
    ['both', false, element(0x80, Buffer.of(0)), element(0x81, Buffer.of(9))],
  ]
  for (const [what, isRead, ...range] of table) {
    const subtree = sequence(element(0x82, 'a.test'), ...range)
    const { certificate } = makeUpper(root, 90 * DAY, sequence(context(0, subtree)))
    const read = () => readConstraints([certificate]).text
    if (isRead) t.match(read(), 'only a.test', what)
    else t.throws(read, { code: 'PKI_CA_INVALID' }, what)
  }
})
