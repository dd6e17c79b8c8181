import fc from 'fast-check'
import t from 'tap'
import { parseSearch } from '../../src/inventory/search.ts'
import type { Search } from '../../src/store/store.ts'

const SHA256 = 'ab'.repeat(32)

t.test('what was entered is read as what it is', async (t) => {
  const whole: Search = { part: 'app.example.com', wildcard: '*.example.com' }
  const cases: [entered: string, search: Search | undefined, name?: string][] = [
    ['', undefined],
    [' \0 ', undefined],
    ['app.example.com', whole, 'app.example.com'],
    [' APP.Example.COM. ', whole, 'app.example.com'],
    ['https://app.example.com/x?y#z', whole, 'app.example.com'],
    ['https://me:secret@app.example.com:8443', whole, 'app.example.com'],
    ['app.example.com:443', whole, 'app.example.com'],
    ['app.example.com/x', whole, 'app.example.com'],
    ['tcp://app.example.com:25', whole, 'app.example.com'],
    ['*.example.com', { part: '*.example.com' }, '*.example.com'],
    [
      'bücher.example',
      { part: 'xn--bcher-kva.example', wildcard: '*.example' },
      'xn--bcher-kva.example',
    ],
    [
      'https://BÜCHER.example/',
      { part: 'xn--bcher-kva.example', wildcard: '*.example' },
      'xn--bcher-kva.example',
    ],
    ['bücher', { part: 'xn--bcher-kva' }],
    ['10.0.0.5', { part: '10.0.0.5' }, '10.0.0.5'],
    ['https://[2001:DB8::0:1]:8443/', { part: '2001:db8::1' }, '2001:db8::1'],
    ['[2001:db8::1]', { part: '2001:db8::1' }, '2001:db8::1'],
    ['App12.', { part: 'app12.' }],
    ['10.0.', { part: '10.0.' }],
    ['-x', { part: '-x' }],
    ['no such thing', { part: 'no such thing' }],
    ['cafe', { part: 'cafe', serialNumber: 'cafe' }],
    ['0xABC', { part: '0xabc', serialNumber: '0abc' }],
    ['00:0A:bc', { part: '00:0a:bc', serialNumber: '0abc' }],
    ['serial=0ABC', { serialNumber: '0abc' }],
    ['Serial Number: 0a:bc', { serialNumber: '0abc' }],
    ['serial=zz', { part: 'serial=zz' }],
  ]
  for (const [entered, search, name] of cases) {
    const question = parseSearch(entered)
    t.strictSame(question?.search, search, entered)
    t.equal(question?.name?.text, name, `${entered}: a whole name`)
    t.equal(question?.fingerprint, undefined, entered)
  }
})

t.test('a SHA-256 fingerprint is one in every form', async (t) => {
  const pairs = SHA256.replace(/..(?=.)/g, '$&:')
  for (const entered of [
    SHA256,
    SHA256.toUpperCase(),
    pairs,
    pairs.toUpperCase().replaceAll(':', ' '),
    `sha256 Fingerprint=${pairs.toUpperCase()}`,
    `SHA-256 fingerprint: ${SHA256}`,
  ])
    t.equal(parseSearch(entered)?.fingerprint, SHA256, entered)
  t.equal(parseSearch('ab'.repeat(20))?.search.serialNumber, 'ab'.repeat(20), 'SHA-1 is none')
})

t.test('whatever is entered, nothing is searched that no store can hold', async () => {
  const texts = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.webUrl(),
    fc.domain(),
    fc.ipV6(),
    fc.stringMatching(/^[0-9a-fA-F: x]{0,100}$/),
  )
  fc.assert(
    fc.property(texts, (text) => {
      const question = parseSearch(text)
      if (!question) return text.replace(/\p{Cc}/gu, '').trim() === ''
      const { part, wildcard, serialNumber } = question.search
      return (
        part !== '' &&
        !/\p{Cc}/u.test(`${part}${wildcard}`) &&
        (serialNumber === undefined || /^([0-9a-f]{2})+$/.test(serialNumber)) &&
        (question.fingerprint !== undefined || part !== undefined || serialNumber !== undefined)
      )
    }),
  )
})

t.test('a name finds itself, and the wildcard that covers it', async () => {
  // No certificate has a reserved label, with `--` in third place (RFC 5890 section 2.3.1).
  const domains = fc.domain().filter((domain) => !/(?:^|\.)..--/.test(domain))
  fc.assert(
    fc.property(domains, (domain) => {
      const { name, search } = parseSearch(`https://${domain}/`) ?? {}
      const [, ...rest] = domain.toLowerCase().split('.')
      return (
        name?.text === domain.toLowerCase() &&
        search?.part === name.text &&
        search.wildcard === `*.${rest.join('.')}`
      )
    }),
  )
})
