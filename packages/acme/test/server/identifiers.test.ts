import t from 'tap'
import { type ProblemType, readIdentifiers } from '../../src/server/index.ts'
import { problemOf } from './refusal.ts'

const dns = (value: unknown) => ({ type: 'dns', value })
const ip = (value: string) => ({ type: 'ip', value })

t.test('reads names, wildcards and addresses', async (t) => {
  const list = [dns('A.example'), dns('*.b.example'), ip('192.0.2.1'), ip('2001:db8::1')]
  const names = readIdentifiers(list).map(({ kind, text }) => `${kind} ${text}`)
  t.strictSame(names, ['dns a.example', 'wildcard *.b.example', 'ip 192.0.2.1', 'ip 2001:db8::1'])
  t.equal(readIdentifiers(Array.from({ length: 100 }, (_, i) => dns(`a${i}.example`))).length, 100)
})

t.test('refuses the whole list for one of them', async (t) => {
  const rows: [what: string, list: unknown, type: ProblemType, subproblems?: string[]][] = [
    ['no list', undefined, 'malformed'],
    ['an object', { 0: dns('a.example') }, 'malformed'],
    ['none', [], 'malformed'],
    ['101', Array.from({ length: 101 }, (_, i) => dns(`a${i}.example`)), 'malformed'],
    ['a text', ['a.example'], 'malformed'],
    ['null', [null], 'malformed'],
    ['without a type', [{ value: 'a.example' }], 'malformed'],
    ['a number', [dns(1)], 'malformed'],
    ['one twice', [dns('a.example'), dns('A.example.')], 'malformed'],
    ['another type', [{ type: 'email', value: 'a@b.example' }], 'unsupportedIdentifier', ['email']],
    ['an address as a name', [dns('192.0.2.1')], 'rejectedIdentifier', ['192.0.2.1']],
    ['a name as an address', [ip('a.example')], 'rejectedIdentifier', ['a.example']],
    [
      'an address that is not canonical',
      [ip('2001:DB8::1')],
      'rejectedIdentifier',
      ['2001:DB8::1'],
    ],
    ['a name that is none', [dns('a_b.example')], 'rejectedIdentifier', ['a_b.example']],
    ['a long one', [dns('a'.repeat(2_049))], 'rejectedIdentifier', ['']],
    ['other characters', [dns('ä.example')], 'rejectedIdentifier', ['']],
    [
      'several',
      [dns('a.example'), dns('-.example'), { type: 'email', value: 'x' }, dns('*.*.example')],
      'rejectedIdentifier',
      ['-.example', 'email', '*.*.example'],
    ],
  ]
  for (const [what, list, type, subproblems] of rows) {
    const problem = problemOf(() => readIdentifiers(list))
    t.equal(problem?.type, type, what)
    const about = problem?.subproblems?.map(
      ({ type, identifier }) =>
        identifier?.value ?? (type === 'unsupportedIdentifier' ? 'email' : ''),
    )
    t.strictSame(about, subproblems, what)
  }
})
