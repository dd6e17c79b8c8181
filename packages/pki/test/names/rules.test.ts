import assert from 'node:assert/strict'
import { cidrContains } from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'
import {
  compileReach,
  compileRules,
  type Name,
  type NameRule,
  parseName,
  parseNameRule,
} from '../../src/index.ts'

const parsed: [text: string, rule: object][] = [
  ['*', { kind: 'any', text: '*' }],
  [
    'App.Example.com.',
    { kind: 'exact', text: 'app.example.com', labels: ['app', 'example', 'com'] },
  ],
  ['*.Example.com', { kind: 'below', text: '*.example.com', labels: ['example', 'com'] }],
  ['=*.Example.com', { kind: 'wildcard', text: '=*.example.com', labels: ['example', 'com'] }],
  ['=**.Example.com', { kind: 'wildcards', text: '=**.example.com', labels: ['example', 'com'] }],
  ['10.0.0.0/8', { kind: 'cidr', text: '10.0.0.0/8' }],
  ['10.1.2.3', { kind: 'cidr', text: '10.1.2.3/32' }],
  ['2001:DB8::/32', { kind: 'cidr', text: '2001:db8::/32' }],
  ['::1', { kind: 'cidr', text: '::1/128' }],
]

const refused = [
  '',
  '.',
  '=',
  '==*.a.b',
  '=a.b',
  '=*',
  '=10.0.0.1',
  '**.a.b',
  '=**a.b',
  '=***.a.b',
  '=**.*.a.b',
  '=**.',
  '==**.a.b',
  '*.*.a.b',
  'a.*.b',
  '*a.b',
  'a_b.c',
  '10.0.0.1/8',
  '10.0.0.0/33',
  '1.2.3.4.',
  '!a.b',
  'a.b,c.d',
  ' a.b',
]

t.test('rules', async (t) => {
  for (const [text, rule] of parsed) t.match(parseNameRule(text), rule, `${text} is read`)
  for (const text of refused)
    t.throws(
      () => parseNameRule(text),
      { code: 'PKI_RULE_INVALID' },
      `${JSON.stringify(text)} is refused`,
    )
})

const matches: [rule: string, yes: string[], no: string[]][] = [
  [
    'example.com',
    ['example.com', 'EXAMPLE.com.'],
    ['a.example.com', '*.example.com', 'badexample.com', 'com', 'example.com.evil.test'],
  ],
  [
    '*.example.com',
    ['a.example.com', 'a.b.example.com'],
    [
      'example.com',
      '*.example.com',
      '*.a.example.com',
      'badexample.com',
      'a.badexample.com',
      'a.example.com.evil.test',
      'a.example.co',
    ],
  ],
  [
    '=*.example.com',
    ['*.example.com'],
    ['example.com', 'a.example.com', '*.a.example.com', '*.badexample.com', '*.com'],
  ],
  [
    '=**.example.com',
    ['*.example.com', '*.a.example.com', '*.b.a.example.com'],
    ['example.com', 'a.example.com', '*.com', '*.badexample.com', '*.example.com.evil.test'],
  ],
  ['*.com', ['a.com', 'a.b.com'], ['com', '*.com', 'xcom', 'a.xcom', '*.a.com']],
  ['*', ['a', 'a.b', '*.a.b', '10.0.0.1', '::1'], []],
  [
    '10.0.0.0/8',
    ['10.0.0.0', '10.255.255.255', '::ffff:10.1.2.3'],
    ['11.0.0.0', '9.255.255.255', '::a00:0', 'a.b', '*.a.b'],
  ],
  ['2001:db8::/32', ['2001:db8::1'], ['2001:db9::1', '32.1.13.184']],
  ['xn--mnchen-3ya.example', ['münchen.example'], ['munchen.example']],
]

t.test('matching', async (t) => {
  for (const [rule, yes, no] of matches) {
    for (const name of yes)
      t.ok(compileRules([parseNameRule(rule)])(parseName(name)), `${rule} holds ${name}`)
    for (const name of no)
      t.notOk(compileRules([parseNameRule(rule)])(parseName(name)), `${rule} does not hold ${name}`)
  }
  t.notOk(compileRules([])(parseName('a.b')), 'no rules hold nothing')
})

/** Compares label by label, as the words of the grammar say. */
function model(rule: NameRule, name: Name): boolean {
  if (rule.kind === 'any') return true
  if (rule.kind === 'cidr') return name.ip !== undefined && cidrContains(rule.cidr, name.ip)
  if (!('labels' in rule)) return false
  const wanted = [...rule.labels].reverse()
  const given = [...name.labels].reverse()
  const below = wanted.every((label, i) => given[i] === label)
  if (rule.kind === 'below') return name.kind === 'dns' && below && given.length > wanted.length
  if (rule.kind === 'wildcards') return name.kind === 'wildcard' && below
  const kind = rule.kind === 'exact' ? 'dns' : 'wildcard'
  return name.kind === kind && below && given.length === wanted.length
}

// Few labels, some of them endings of others, so that near misses are common.
const host = fc
  .array(fc.constantFrom('a', 'b', 'ba', 'aa', 'a-b'), { minLength: 1, maxLength: 4 })
  .map((labels) => labels.join('.'))
const address = fc.constantFrom('10.0.0.1', '10.128.0.1', '11.0.0.1', '::1', '2001:db8::1')
const name = fc
  .oneof(
    host,
    host.map((host) => `*.${host}`),
    address,
  )
  .map(parseName)
const network = fc.constantFrom(
  '10.0.0.0/9',
  '10.0.0.0/8',
  '0.0.0.0/0',
  '::/0',
  '2001:db8::/33',
  '::1',
)
const rule = fc
  .oneof(
    {
      weight: 9,
      arbitrary: fc
        .tuple(fc.constantFrom('', '*.', '=*.', '=**.'), host)
        .map((parts) => parts.join('')),
    },
    { weight: 3, arbitrary: network },
    { weight: 1, arbitrary: fc.constant('*') },
  )
  .map(parseNameRule)

t.test('property: matches with compiled rules as with each rule alone', async (t) => {
  const property = fc.property(fc.array(rule, { maxLength: 6 }), name, (rules, name) => {
    assert.equal(
      compileRules(rules)(name),
      rules.some((rule) => model(rule, name)),
    )
    for (const rule of rules) assert.deepEqual(parseNameRule(rule.text), rule)
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }))
})

const reaches: [rule: string, yes: string[], no: string[]][] = [
  [
    'vault.example.com',
    ['vault.example.com', '*.example.com'],
    ['*.vault.example.com', '*.com', 'a.vault.example.com', '*.xexample.com', 'example.com'],
  ],
  [
    '*.example.com',
    ['a.example.com', 'a.b.example.com', '*.example.com', '*.a.example.com', '*.a.b.example.com'],
    ['example.com', '*.com', '*.badexample.com'],
  ],
  ['=*.example.com', ['*.example.com'], ['a.example.com', '*.a.example.com', '*.com']],
  ['=**.example.com', ['*.example.com', '*.a.example.com'], ['a.example.com', '*.com']],
  ['*', ['a', '*.a', '10.0.0.1'], []],
  ['10.0.0.0/8', ['10.1.2.3'], ['11.0.0.1', '*.a', '*.10.example']],
  ['localhost', ['localhost'], ['*.localhost']],
]

t.test('finds the wildcards that cover a name of a rule', async (t) => {
  for (const [rule, yes, no] of reaches) {
    const reach = compileReach([parseNameRule('other.test'), parseNameRule(rule)])
    for (const name of yes) t.equal(reach(parseName(name))?.text, rule, `${rule} reaches ${name}`)
    for (const name of no) t.equal(reach(parseName(name)), undefined, `${rule}, not ${name}`)
  }
})

t.test(
  'property: finds a rule exactly if it matches the name or one that the name covers',
  async (t) => {
    // Every label that a rule above can begin with, and one that none does.
    const labels = ['a', 'b', 'ba', 'aa', 'a-b', 'zz']
    const covered = (name: Name) =>
      name.kind === 'wildcard'
        ? labels.map((label) => parseName(`${label}.${name.labels.join('.')}`))
        : []
    const property = fc.property(fc.array(rule, { maxLength: 6 }), name, (rules, name) => {
      const holds = (one: Name) => rules.some((rule) => model(rule, one))
      const expected = [name, ...covered(name)].some(holds)
      assert.equal(compileReach(rules)(name) !== undefined, expected)
    })
    t.doesNotThrow(() => fc.assert(property, { numRuns: 2000 }))
  },
)
