import fc from 'fast-check'
import t from 'tap'
import { validateReturnUrl } from '../../src/web/return-url.ts'
import { SITE } from '../session/kit.ts'

const LOOPBACK = { ...SITE, domain: 'localhost' }

t.test('accepts URLs on the cookie domain', async (t) => {
  const rows: [text: string, href?: string][] = [
    ['https://example.com', 'https://example.com/'],
    ['https://app.example.com/'],
    ['https://a.b.c.example.com/path/to?q=1&r=https://evil.test/'],
    ['https://app.example.com:8443/'],
    ['https://app.example.com:443/', 'https://app.example.com/'],
    ['HTTPS://APP.Example.COM/Path', 'https://app.example.com/Path'],
    ['https://app.example.com/My%20Files/%C3%A4.txt?q=a+b'],
    ['https://app.example.com//evil.test/'],
    ['https://app.example.com/../..//evil.test', 'https://app.example.com//evil.test'],
    ['https://app.example.com/@evil.test'],
    ['https://app.example.com/?next=//evil.test'],
  ]
  for (const [text, href = text] of rows) t.equal(validateReturnUrl(text, SITE)?.href, href, text)
  for (const text of ['http://localhost:8080/a', 'http://app.localhost/', 'https://localhost/'])
    t.equal(validateReturnUrl(text, LOOPBACK)?.href, text)
})

t.test('accepts URLs on every domain with the same sign-in host', async (t) => {
  const site = { ...SITE, otherDomains: ['example.org', 'apps.example.net'] }
  for (const host of ['app.example.com', 'example.org', 'a.b.example.org', 'x.apps.example.net'])
    t.ok(validateReturnUrl(`https://${host}/`, site), host)
  for (const host of ['example.net', 'badexample.org', 'example.org.evil.test', 'evil.test'])
    t.notOk(validateReturnUrl(`https://${host}/`, site), host)
  t.notOk(validateReturnUrl('https://example.org/', SITE), 'of another sign-in host')
})

t.test('accepts deep links of real apps unchanged', async (t) => {
  for (const link of [
    // Prometheus: a regular expression.
    'https://prometheus.example.com/graph?g0.expr=up%7Binstance%3D~%22.*%5C%5C.example%5C%5C.com%22%7D',
    // Grafana: JSON in which quotes are escaped.
    'https://grafana.example.com/explore?panes=%7B%22a%22%3A%7B%22expr%22%3A%22%7Bjob%3D%5C%22api%5C%22%7D%22%7D%7D',
    // Kibana: a search over two lines, and a tab.
    "https://kibana.example.com/app/discover?_a=(query:(language:kuery,query:'level:error%0D%0Aand%09status:500'))",
    'https://files.example.com/search?path=C%3A%5CUsers%5CAda&nul=%00&del=%7F',
  ])
    t.equal(validateReturnUrl(link, SITE)?.href.replaceAll('%27', "'"), link)
})

t.test('no query changes the host', async () => {
  const bytes = fc.integer({ min: 0, max: 255 }).map((n) => `%${n.toString(16).padStart(2, '0')}`)
  const pieces = fc.oneof(bytes, fc.constantFrom('//evil.test', '@evil.test', '?', '/..', 'a=b&'))
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (query) => {
      const url = validateReturnUrl(`https://app.example.com/a?${query.join('')}`, SITE)
      return url?.origin === 'https://app.example.com' && url.pathname === '/a'
    }),
    { numRuns: 5_000 },
  )
})

t.test('matches domains at label boundaries, not by suffix', async (t) => {
  for (const host of [
    'badexample.com',
    'bad-example.com',
    'example.com.evil.test',
    'example.comevil.test',
    'evil.test',
    'com',
    'example.org',
    'xn--exmple-cua.com',
    'exаmple.com',
    'app.example.com。evil.test',
    'example.com:evil.test',
    'example.com%2eevil.test',
    '203.0.113.7',
    '0x7f.1',
    '2130706433',
    '[::1]',
    '.',
    '..example.com',
  ])
    t.equal(validateReturnUrl(`https://${host}/`, SITE), undefined, host)
})

t.test('refuses user information and opaque URLs', async (t) => {
  for (const text of [
    'https://app.example.com@evil.test/',
    'https://ada@app.example.com/',
    'https://ada:pw@app.example.com/',
    'https://@app.example.com/',
    'https://:@app.example.com/',
    'x:@evil.test',
    'x:@app.example.com',
    'https:app.example.com',
    'https:/app.example.com',
    'https:///app.example.com',
    'https:\\\\app.example.com',
  ])
    t.equal(validateReturnUrl(text, SITE), undefined, text)
})

t.test('refuses more than 1,000 known open redirects', async (t) => {
  const corpus = openRedirects()
  t.ok(corpus.size >= 1_000, `${corpus.size} of them`)
  const taken = [...corpus].filter((text) => validateReturnUrl(text, SITE))
  t.strictSame(taken, [])
})

t.test('refuses control characters, spaces and backslashes, raw or encoded once', async (t) => {
  const trouble = [...Array(0x21).keys(), 0x7f, 0x5c]
  for (const byte of trouble) {
    const raw = String.fromCharCode(byte)
    const encoded = `%${byte.toString(16).padStart(2, '0')}`
    for (const [before, after] of [
      ['', 'https://app.example.com/'],
      ['https://', 'app.example.com/'],
      ['https://app', '.example.com/'],
      ['https://app.example.com', '/'],
      ['https://app.example.com/', 'a'],
      ['https://app.example.com/?q=', ''],
    ] as const) {
      t.equal(validateReturnUrl(`${before}${raw}${after}`, SITE), undefined, `${before}${byte}`)
      const [isInQuery, isInPath] = [before.includes('?'), before.includes('.com/')]
      if (isInQuery || (byte === 0x20 && isInPath)) continue
      for (const spelling of [encoded, encoded.toUpperCase()])
        t.equal(validateReturnUrl(`${before}${spelling}${after}`, SITE), undefined, spelling)
    }
  }
  for (const other of ['\u0085', '\u00a0', '\u2028', '\u3000', '\ufeff', '\u200b', '\ud800', 'ä'])
    t.equal(validateReturnUrl(`https://app.example.com/${other}`, SITE), undefined)
})

t.test(
  'every accepted URL is https, on the domain and without user name for the URL parser',
  async () => {
    const parts = fc.array(
      fc.oneof(
        fc.constantFrom(
          'https:',
          'http:',
          '//',
          '/',
          '\\',
          '@',
          ':',
          '#',
          '?',
          '.',
          '%2f',
          '%40',
          '%09',
        ),
        fc.constantFrom(
          'example.com',
          'app.example.com',
          'evil.test',
          '\t',
          '\n',
          ' ',
          '\0',
          '。',
          '443',
        ),
        fc.string({ unit: 'binary', maxLength: 3 }),
      ),
      { maxLength: 9 },
    )
    const begins = fc.constantFrom(
      '',
      'https://',
      'https://app.example.com',
      'https://app.example.com/',
    )
    fc.assert(
      fc.property(begins, parts, (begin, rest) => {
        const url = validateReturnUrl(begin + rest.join(''), SITE)
        if (!url) return true
        const { protocol, username, password, hostname } = new URL(url.href)
        const isOn = hostname === 'example.com' || hostname.endsWith('.example.com')
        const isTrailing = hostname.endsWith('.example.com.') || hostname === 'example.com.'
        return protocol === 'https:' && `${username}${password}` === '' && (isOn || isTrailing)
      }),
      { numRuns: 5_000 },
    )
  },
)

t.test('accepts http for loopback names only, and no other schemes', async (t) => {
  for (const scheme of ['http', 'ftp', 'ws', 'wss', 'javascript', 'data', 'file', 'blob'])
    t.equal(validateReturnUrl(`${scheme}://app.example.com/`, SITE), undefined, scheme)
  t.equal(validateReturnUrl('ftp://localhost/', LOOPBACK), undefined)
})

t.test('limits the length, also after encoding', async (t) => {
  const base = 'https://app.example.com/'
  t.ok(validateReturnUrl(base.padEnd(8_192, 'a'), SITE))
  t.equal(validateReturnUrl(base.padEnd(8_193, 'a'), SITE), undefined)
  t.equal(validateReturnUrl(base.padEnd(8_000, '"'), SITE), undefined)
  t.equal(validateReturnUrl(base + 'a'.repeat(10_000_000), SITE), undefined)
  for (const text of [undefined, '']) t.equal(validateReturnUrl(text, SITE), undefined)
})

/** Ways to write a host of somebody else that have passed for ours in one software or another. */
function openRedirects(): Set<string> {
  const hosts = [
    'evil.test',
    'evil.test:443',
    'evil.test.',
    'EVIL.test',
    'example.com.evil.test',
    'badexample.com',
    '203.0.113.7',
    '3405803783',
    '0xcb007107',
    '[2001:db8::1]',
    'xn--e1awd7f.test',
  ]
  const ours = ['app.example.com', 'example.com']
  const templates: ((evil: string, own: string) => string)[] = [
    (evil) => `//${evil}`,
    (evil) => `///${evil}`,
    (evil) => `////${evil}/..`,
    (evil) => `/\\${evil}`,
    (evil) => `\\\\${evil}`,
    (evil) => `\\/\\/${evil}`,
    (evil) => `/\t/${evil}`,
    (evil) => `/%09/${evil}`,
    (evil) => `/%2f%2f${evil}`,
    (evil) => `/%5c${evil}`,
    (evil) => `/.${evil}`,
    (evil) => `.${evil}`,
    (evil) => `@${evil}`,
    (evil) => evil,
    (evil) => `https:${evil}`,
    (evil) => `https:/${evil}`,
    (evil) => `https://${evil}`,
    (evil) => `https:///${evil}`,
    (evil) => `https:////${evil}`,
    (evil) => `https:\\\\${evil}`,
    (evil) => `https:\\${evil}`,
    (evil) => `https:/\\${evil}`,
    (evil) => `http:${evil}`,
    (evil) => `http://${evil}`,
    (evil) => ` https://${evil}`,
    (evil) => `\u0000https://${evil}`,
    (evil) => `ht\ntps://${evil}`,
    (evil) => `https:\r\n//${evil}`,
    (evil) => `javascript://${evil}/%0aalert(1)`,
    (evil) => `data:text/html;base64,${evil}`,
    (evil) => `x:@${evil}`,
    (evil, own) => `https://${own}@${evil}`,
    (evil, own) => `https://${own}:pw@${evil}`,
    (evil, own) => `https://${own}:443@${evil}`,
    (evil, own) => `https://${own}%40${evil}`,
    (evil, own) => `https://${own}%00@${evil}`,
    (evil, own) => `https://${own}\\@${evil}`,
    (evil, own) => `https://${own}%23@${evil}`,
    (evil, own) => `https://${own};@${evil}`,
    (evil, own) => `https://${own}&@${evil}`,
    (evil, own) => `https://${evil}#${own}`,
    (evil, own) => `https://${evil}?${own}`,
    (evil, own) => `https://${evil}/${own}`,
    (evil, own) => `https://${evil}\\.${own}`,
    (evil, own) => `https://${evil}%2f.${own}`,
    (evil, own) => `https://${evil}%5c.${own}`,
    (evil, own) => `https://${evil}%00.${own}`,
    (evil, own) => `https://${evil}%0d%0a.${own}`,
    (evil, own) => `https://${evil}\u2044.${own}`,
    (evil, own) => `https://${own}.${evil}`,
    (evil, own) => `https://${own}%2e${evil}`,
    (evil, own) => `https://${own}\u3002${evil}`,
    (evil, own) => `https://${own}\t.${evil}`,
    (evil, own) => `https://${own}-${evil}`,
    (evil, own) => `https://${own}/\\${evil}`,
    (evil, own) => `https://${own}/%5c${evil}`,
    (evil, own) => `https://${own}/%0d%0aLocation:https://${evil}`,
    (evil, own) => `https://${own}/\r\nLocation: https://${evil}`,
    (evil, own) => `https://${own}:99999/${evil}`,
    (evil, own) => `https://${own}:/${evil}\n`,
    (evil, own) => `http://${own}/${evil}`,
    (evil, own) => `ftp://${own}/${evil}`,
  ]
  return new Set(
    templates.flatMap((write) => ours.flatMap((own) => hosts.map((evil) => write(evil, own)))),
  )
}

t.test('keeps the fragment, by which some apps route', async (t) => {
  for (const [text, href] of [
    ['https://app.example.com/#/orders?page=2', 'https://app.example.com/#/orders?page=2'],
    ['https://app.example.com/a?b#c#d', 'https://app.example.com/a?b#c#d'],
    ['https://app.example.com#@evil.test', 'https://app.example.com/#@evil.test'],
    ['https://app.example.com/#', 'https://app.example.com/'],
    ['https://evil.test/#https://app.example.com/', undefined],
    ['https://evil.test#.example.com', undefined],
    ['#https://app.example.com/', undefined],
    ['https://app.example.com/#a\\b', undefined],
    ['https://app.example.com/#a b', undefined],
    [`https://app.example.com/#${'a'.repeat(8_192)}`, undefined],
  ] as const)
    t.equal(validateReturnUrl(text, SITE)?.href, href, text)
})
