import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { type Name, parseName } from '../src/index.ts'

const long = `${'a'.repeat(62)}.`.repeat(4)

const canonical: [text: string, canonical: string, kind: Name['kind']][] = [
  ['app.example.com', 'app.example.com', 'dns'],
  ['App.EXAMPLE.com', 'app.example.com', 'dns'],
  ['app.example.com.', 'app.example.com', 'dns'],
  ['localhost', 'localhost', 'dns'],
  ['printer.local', 'printer.local', 'dns'],
  ['db.internal', 'db.internal', 'dns'],
  ['3com.com', '3com.com', 'dns'],
  ['1.2.3.4.in-addr.arpa', '1.2.3.4.in-addr.arpa', 'dns'],
  ['a--b.example', 'a--b.example', 'dns'],
  ['münchen.example', 'xn--mnchen-3ya.example', 'dns'],
  ['MÜNCHEN.example', 'xn--mnchen-3ya.example', 'dns'],
  ['mu\u0308nchen.example', 'xn--mnchen-3ya.example', 'dns'],
  ['XN--MNCHEN-3YA.example', 'xn--mnchen-3ya.example', 'dns'],
  ['日本語。ＪＰ', 'xn--wgv71a119e.jp', 'dns'],
  ['*.example.com', '*.example.com', 'wildcard'],
  ['*.EXAMPLE.com.', '*.example.com', 'wildcard'],
  ['*.local', '*.local', 'wildcard'],
  ['*.münchen.example', '*.xn--mnchen-3ya.example', 'wildcard'],
  ['10.0.0.1', '10.0.0.1', 'ip'],
  ['2001:DB8:0:0:0:0:0:1', '2001:db8::1', 'ip'],
  ['::ffff:10.0.0.1', '10.0.0.1', 'ip'],
  [long.slice(0, 251), long.slice(0, 251), 'dns'],
]

const refused: [why: string, text: string][] = [
  ['empty', ''],
  ['a dot', '.'],
  ['empty first label', '.example.com'],
  ['empty inner label', 'a..example.com'],
  ['two trailing dots', 'example.com..'],
  ['underscore', 'a_b.example.com'],
  ['leading hyphen', '-a.example.com'],
  ['trailing hyphen', 'a-.example.com'],
  ['label of 64', `${'a'.repeat(64)}.example.com`],
  ['254 characters', `${long}ab`.slice(0, 254)],
  ['254 characters with its wildcard', `*.${long.slice(0, 251)}a`],
  ['a mebibyte', 'a.'.repeat(1 << 19)],
  ['space', 'a b.example.com'],
  ['NUL', 'a.example.com\0.evil.test'],
  ['newline at the end', 'example.com\n'],
  ['at sign', 'user@example.com'],
  ['port', 'example.com:443'],
  ['URL', 'https://example.com'],
  ['path', 'example.com/x'],
  ['percent escape', 'ex%61mple.com'],
  ['port beside Unicode', 'münchen.example:443'],
  ['path beside Unicode', 'münchen.example/x'],
  ['percent escape beside Unicode', 'münchen.ex%61mple'],
  ['full-width slash', 'a／b.example'],
  ['full-width star', '＊.example.com'],
  ['lone surrogate', '\ud800.example'],
  ['joiner alone', '\u200d'],
  ['right-to-left rule broken', 'a\u05d0.example'],
  ['punycode of nothing', 'xn--.example'],
  ['punycode that does not decode', 'xn--a.example'],
  ['punycode of plain ASCII', 'xn--example-.com'],
  ['punycode of an upper-case letter', 'xn--mnchen-psa.example'],
  ['punycode of a decomposed letter', 'xn--munchen-gie.example'],
  ['punycode of a soft hyphen', 'xn--ab-5da.example'],
  ['punycode with a hyphen too many', 'xn---0mw.example'],
  ['reserved label', 'ab--cd.example'],
  ['wildcard alone', '*'],
  ['wildcard over nothing', '*.'],
  ['wildcard over wildcard', '*.*.example.com'],
  ['wildcard in the middle', 'a.*.example.com'],
  ['wildcard at the end', 'example.*'],
  ['wildcard in part of a label', 'a*.example.com'],
  ['wildcard without dot', '*example.com'],
  ['wildcard over an address', '*.10.0.0.1'],
  ['rule for the wildcard', '=*.example.com'],
  ['network', '10.0.0.0/8'],
  ['address with trailing dot', '1.2.3.4.'],
  ['address with leading zero', '01.2.3.4'],
  ['address of three parts', '1.2.3'],
  ['address as a number', '2130706433'],
  ['address in hex', '0x7f000001'],
  ['address in part hex', '0x7f.1'],
  ['hex at the end', '127.0.0.0x1'],
  ['bare 0x at the end', 'a.0x'],
  ['address in full-width digits', '１２７.0.0.1'],
  ['address with ideographic dots', '127。0。0。1'],
  ['number as last label', 'example.123'],
  ['IPv6 in brackets', '[::1]'],
  ['IPv6 with zone', 'fe80::1%eth0'],
]

t.test('names', async (t) => {
  for (const [text, expected, kind] of canonical)
    t.match(parseName(text), { text: expected, kind }, `${text} is ${expected}`)
  for (const [why, text] of refused)
    t.throws(() => parseName(text), { code: 'PKI_NAME_INVALID' }, `refused: ${why}`)
  t.strictSame(parseName('*.a.b').labels, ['a', 'b'], 'labels leave the star out')
  t.strictSame(
    parseName('10.0.0.1').ip?.bytes,
    Uint8Array.of(10, 0, 0, 1),
    'an address has its bytes',
  )
  t.throws(
    () => parseName('x\n\u001b[31m'),
    { message: '"x\\n\\u001b[31m" has a label' },
    'messages are escaped',
  )
})

const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/)
const unicode = fc.string({ unit: 'grapheme', maxLength: 12 })
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc
    .array(fc.oneof(label, unicode, fc.constantFrom('*', 'xn--', '0x7f', '1', '')), {
      maxLength: 5,
    })
    .map((labels) => labels.join('.')),
  fc.ipV4(),
  fc.ipV6(),
)

t.test('property: gives every text one canonical form, or refuses it', async (t) => {
  const property = fc.property(text, (text) => {
    let name: Name
    try {
      name = parseName(text)
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'PKI_NAME_INVALID')
      return
    }
    assert.match(name.text, /^(\*\.)?[a-z0-9.:-]{1,253}$/)
    assert.deepEqual(parseName(name.text), name)
    assert.deepEqual(parseName(name.text.toUpperCase()), name)
    if (name.ip) return
    const dotted = name.labels.join('.')
    assert.equal(name.text, name.kind === 'wildcard' ? `*.${dotted}` : dotted)
    assert.deepEqual(parseName(`${name.text}.`), name)
    assert.throws(() => parseName(`${name.text}.1`))
  })
  t.doesNotThrow(() => fc.assert(property, { numRuns: 500 }))
})
