import fc from 'fast-check'
import t from 'tap'
import {
  compileReach,
  compileRules,
  type Name,
  parseClientName,
  parseName,
  parseNameRule,
} from '../../src/index.ts'

const canonical: [text: string, canonical: string, kind: Name['kind'], labels: string][] = [
  ['App.Example.com.', 'app.example.com', 'dns', 'app.example.com'],
  ['alice', 'alice', 'dns', 'alice'],
  ['alice@Example.COM', 'alice@example.com', 'email', 'example.com'],
  ['alice@münchen.example', 'alice@xn--mnchen-3ya.example', 'email', 'xn--mnchen-3ya.example'],
  ["a.o'neil+x_y=z&-~@b.example", "a.o'neil+x_y=z&-~@b.example", 'email', 'b.example'],
  [`${'a'.repeat(64)}@b.example`, `${'a'.repeat(64)}@b.example`, 'email', 'b.example'],
  ['spiffe://example.com/a', 'spiffe://example.com/a', 'uri', 'example.com'],
  ['spiffe://a_b.c/NS/x.y-z/_', 'spiffe://a_b.c/NS/x.y-z/_', 'uri', 'a_b.c'],
  [`spiffe://x/${'a'.repeat(2037)}`, `spiffe://x/${'a'.repeat(2037)}`, 'uri', 'x'],
]

const refused: [why: string, text: string][] = [
  ['empty', ''],
  ['wildcard', '*.example.com'],
  ['IPv4 address', '10.0.0.1'],
  ['IPv6 address', '::1'],
  ['no local part', '@example.com'],
  ['no domain', 'alice@'],
  ['two at signs', 'a@b@example.com'],
  ['quoted local part', '"a"@example.com'],
  ['source route', 'a%b.example@example.com'],
  ['bang path', 'host!a@example.com'],
  ['upper case before the at sign', 'Alice@example.com'],
  ['Unicode before the at sign', 'ålice@example.com'],
  ['a star', '*@example.com'],
  ['empty part', 'a..b@example.com'],
  ['dot at the start', '.a@example.com'],
  ['dot before the at sign', 'a.@example.com'],
  ['space', 'a b@example.com'],
  ['NUL', 'a\0@example.com'],
  ['comment', 'a(b)@example.com'],
  ['display name', 'Alice <alice@example.com>'],
  ['list', 'a@example.com,b@example.com'],
  ['address literal', 'a@[10.0.0.1]'],
  ['IP address as domain', 'a@10.0.0.1'],
  ['wildcard domain', 'a@*.example.com'],
  ['dot at the end', 'a@example.com.'],
  ['local part of 65', `${'a'.repeat(65)}@example.com`],
  ['address of 255', `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c.'.repeat(64)}d`],
  ['mailto', 'mailto:alice@example.com'],
  ['https', 'https://example.com/a'],
  ['scheme in upper case', 'SPIFFE://example.com/a'],
  ['trust domain in upper case', 'spiffe://Example.com/a'],
  ['no trust domain', 'spiffe:///a'],
  ['no path', 'spiffe://example.com'],
  ['slash alone', 'spiffe://example.com/'],
  ['slash at the end', 'spiffe://example.com/a/'],
  ['empty segment', 'spiffe://example.com/a//b'],
  ['dot segment', 'spiffe://example.com/a/./b'],
  ['segment of two dots', 'spiffe://example.com/..'],
  ['empty label', 'spiffe://a..b/c'],
  ['port', 'spiffe://example.com:80/a'],
  ['user', 'spiffe://u@example.com/a'],
  ['query', 'spiffe://example.com/a?b'],
  ['fragment', 'spiffe://example.com/a#b'],
  ['percent escape', 'spiffe://example.com/%61'],
  ['star', 'spiffe://example.com/*'],
  ['Unicode', 'spiffe://example.com/ä'],
  ['trust domain of 256', `spiffe://${'a'.repeat(256)}/b`],
  ['2049 characters', `spiffe://x/${'a'.repeat(2038)}`],
  ['a mebibyte', `spiffe://x/${'a/'.repeat(1 << 19)}a`],
]

t.test('names of clients', async (t) => {
  for (const [text, expected, kind, labels] of canonical) {
    const name = parseClientName(text)
    t.strictSame([name.text, name.kind, name.labels.join('.')], [expected, kind, labels], text)
    if (kind !== 'dns') t.throws(() => parseName(text), { code: 'PKI_NAME_INVALID' })
  }
  for (const [why, text] of refused)
    t.throws(() => parseClientName(text), { code: 'PKI_NAME_INVALID' }, why)
})

const label = fc.stringMatching(/^[a-z]([a-z0-9]{0,5}[a-z0-9])?$/)
const domain = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join('.'))
const email = fc
  .tuple(fc.stringMatching(/^[a-z0-9+_-]{1,8}$/), domain)
  .map((parts) => parts.join('@'))
const segment = fc.stringMatching(/^[A-Za-z0-9_-]{1,6}$/)
const uri = fc
  .tuple(domain, fc.array(segment, { minLength: 1, maxLength: 3 }))
  .map(([trust, path]) => `spiffe://${[trust, ...path].join('/')}`)
const anyName = fc.oneof(domain, email, uri)

t.test('a canonical name is its own canonical form, and no other text is taken', async () => {
  const check = fc.property(
    fc.oneof(anyName, fc.string(), fc.string({ unit: 'grapheme' })),
    (text) => {
      let name: Name
      try {
        name = parseClientName(text)
      } catch (error) {
        return (error as { code?: string }).code === 'PKI_NAME_INVALID'
      }
      return parseClientName(name.text).text === name.text && /^[!-~]+$/.test(name.text)
    },
  )
  fc.assert(check, { numRuns: 2_000 })
})

const RULES: [rule: string, held: string[], others: string[]][] = [
  ['alice@Example.com', ['alice@example.com'], ['bob@example.com', 'alice@a.example.com']],
  ['*@example.com', ['a@example.com', 'b.c@example.com'], ['a@b.example.com', 'example.com']],
  ['spiffe://x/a', ['spiffe://x/a'], ['spiffe://x/a/b', 'spiffe://x/ab', 'spiffe://y/a']],
  ['spiffe://x/*', ['spiffe://x/a', 'spiffe://x/a/b'], ['spiffe://xy/a', 'spiffe://y/x/a', 'x']],
  ['spiffe://x/a/*', ['spiffe://x/a/b', 'spiffe://x/a/b/c'], ['spiffe://x/a', 'spiffe://x/ab/c']],
  ['*.example.com', ['a.example.com'], ['a@b.example.com', 'spiffe://b.example.com/a']],
  ['example.com', ['example.com'], ['a@example.com', 'spiffe://example.com/a']],
  ['*', ['a', 'a@b', 'spiffe://a/b'], []],
]

t.test('rules for names of clients match names of their kind', async (t) => {
  for (const [text, held, others] of RULES) {
    const rule = parseNameRule(text)
    for (const compile of [compileRules, compileReach]) {
      const holds = compile([rule])
      for (const name of held) t.ok(holds(parseClientName(name)), `${text} holds ${name}`)
      for (const name of others) t.notOk(holds(parseClientName(name)), `${text} is not ${name}`)
    }
  }
  t.notOk(compileRules([parseNameRule('0.0.0.0/0')])(parseClientName('a@b')), 'a network')
  for (const text of ['a@*', '*@*', 'a*@b', '*@*.b', 'spiffe://*', 'spiffe://x*', 'spiffe://*/a'])
    t.throws(() => parseNameRule(text), { code: 'PKI_RULE_INVALID' }, text)
})

t.test('a rule of one kind never matches a name of another', async () => {
  const below = uri.map((text) => text.replace(/\/[^/]+$/, '/*'))
  const ofAll = email.map((text) => text.replace(/^[^@]+/, '*'))
  const rule = fc.oneof(
    anyName,
    below,
    ofAll,
    domain.map((text) => `*.${text}`),
  )
  const kindOf = (text: string) =>
    text.includes('@') ? 'email' : text.includes(':') ? 'uri' : 'dns'
  const check = fc.property(rule, anyName, (text, name) => {
    const holds = compileRules([parseNameRule(text)])(parseClientName(name))
    return !holds || kindOf(text) === kindOf(name)
  })
  fc.assert(check, { numRuns: 2_000 })
})
