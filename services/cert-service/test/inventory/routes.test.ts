import { hash } from 'node:crypto'
import { StoreError } from '@gatehouse/store'
import fc from 'fast-check'
import t from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, KEY, NOW, type Running, start } from '../helpers/app.ts'
import { browse, enter } from '../helpers/enter.ts'

const LIMITED = 'a-key-of-team-a-only'
const keys = [
  { name: 'ops', key: KEY },
  { name: 'team a', key: LIMITED, domains: ['*.a.test'] },
]

const add = ({ service }: Running, names: string[], days: number) =>
  service.store.addCertificate(newCertificate({ names, renewAt: NOW + days * DAY }), newAudit())

t.test('no page can be cached, framed or run scripts of others', async (t) => {
  const running = await start(t)
  const { cookie } = await enter(running, KEY)
  const answers = {
    asked: await browse(running, 'GET', '/'),
    seen: await browse(running, 'GET', '/', { cookie }),
    wrong: await enter(running, 'x'),
    problem: await browse(running, 'GET', '/?x=1', { cookie }),
  }
  for (const [name, { headers }] of Object.entries(answers)) {
    t.equal(headers['cache-control'], 'no-store', name)
    t.equal(headers['x-content-type-options'], 'nosniff', name)
    t.match(headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-/, name)
    t.match(headers['content-security-policy'], /frame-ancestors 'none'/, name)
  }
})

t.test('a key sees here what it sees at GET /api/certificates', async (t) => {
  const running = await start(t, {
    auth: { psk: { keys } },
    rules: [{ effect: 'deny', names: ['secret.a.test'] }],
  })
  const { service, app } = running
  await add(running, ['x.a.test'], 3)
  await add(running, ['y.a.test', 'y.b.test'], 2)
  await add(running, ['z.b.test'], 1)
  await add(running, ['secret.a.test'], 1)
  for (const name of ['f.a.test', 'f.b.test'])
    await service.store.saveOrder(
      newOrder({ id: name, requestKey: name, names: [name], status: 'failed', nextTryAt: NOW }),
    )
  const cases: [key: string, failed: string[], held: string[]][] = [
    [KEY, ['f.a.test', 'f.b.test'], ['z.b.test', 'y.a.test', 'x.a.test']],
    [LIMITED, ['f.a.test'], ['x.a.test']],
  ]
  for (const [key, failed, held] of cases) {
    const { cookie } = await enter(running, key)
    const { names, text } = await browse(running, 'GET', '/', { cookie })
    t.same(new Set(names), new Set([...failed, ...held]), key)
    t.same(names.slice(-held.length), held, `${key}: in order of what comes next`)
    t.notMatch(text, 'secret.a.test')
    const listed = await app.inject({
      url: '/api/certificates',
      headers: { authorization: `APIKey ${key}` },
    })
    const domains = listed.json().certificates.map(({ domain }: { domain: string }) => domain)
    t.same(domains.toSorted(), held.toSorted(), `${key}: as the API`)
    const found = await browse(running, 'GET', '/?q=B.TEST', { cookie })
    t.equal(found.names.includes('z.b.test'), key === KEY, `${key}: a search finds no more`)
  }
})

t.test('pages, searched or not, show each certificate once', async (t) => {
  const running = await start(t)
  for (let n = 0; n < 120; n += 1)
    await add(running, [`app${n}.${n % 2 ? 'odd' : 'even'}.test`], (n * 7) % 11)
  const { cookie } = await enter(running, KEY)
  const cases: [search: string, sizes: number[]][] = [
    ['', [50, 50, 20]],
    ['?q=odd', [50, 10]],
    ['?q=app11', [11]],
    ['?q=none', [0]],
  ]
  for (const [search, sizes] of cases) {
    const read: unknown[][] = []
    for (let url: string | undefined = `/${search}`; url; ) {
      const { names, text } = await browse(running, 'GET', url, { cookie })
      read.push(names)
      url = /href="([^"]+)" rel="next"/.exec(text)?.[1]?.replaceAll('&amp;', '&')
    }
    t.same(
      read.map(({ length }) => length),
      sizes,
      search,
    )
    t.equal(new Set(read.flat()).size, read.flat().length, search)
  }
})

t.test('forth and back, in every order, state and issuer', async (t) => {
  const running = await start(t)
  for (let n = 0; n < 120; n += 1) await add(running, [`app${n}.test`], (n * 7) % 11)
  const { cookie } = await enter(running, KEY)
  const follow = async (url: string, rel: 'prev' | 'next') => {
    const { names, text } = await browse(running, 'GET', url, { cookie })
    const href = new RegExp(`href="([^"]+)" rel="${rel}"`).exec(text)?.[1]
    return { names: names.join(), href: href?.replaceAll('&amp;', '&'), url }
  }
  for (const query of ['?', '?order=name', '?order=expiry', '?order=newest&state=renews&q=test']) {
    const forth = [await follow(`/${query}`, 'next')]
    for (let at = forth[0]?.href; at; at = forth.at(-1)?.href) forth.push(await follow(at, 'next'))
    t.equal(forth.length, 3, query)
    const back = [await follow(forth[2]!.url, 'prev')]
    for (let at = back[0]?.href; at; at = back.at(-1)?.href) back.push(await follow(at, 'prev'))
    const names = (pages: typeof back) => pages.map((page) => page.names)
    t.same(names(back.toReversed()), names(forth), `${query}: the same pages`)
    for (const { url } of [...forth, ...back].slice(1))
      for (const [key, value] of new URLSearchParams(query)) t.match(url, `${key}=${value}`)
  }
  const first = await follow('/', 'next')
  await add(running, ['new.test'], 0)
  const second = await follow(first.href!, 'prev')
  const full = await browse(running, 'GET', second.href!, { cookie })
  t.equal(full.names.length, 50, 'the first page is full, also if it begins anew')
  t.equal((await browse(running, 'GET', '/?state=ended', { cookie })).names.length, 0)
  t.equal((await browse(running, 'GET', '/?issuer=other', { cookie })).names.length, 0)
})

t.test('a search answers what was asked', async (t) => {
  const running = await start(t, { auth: { psk: { keys } } })
  await add(running, ['*.a.test'], 1)
  await add(running, ['x.a.test.example.com'], 2)
  const certificate = newCertificate({ names: ['b.test', '10.0.0.5'], serialNumber: '0abc' })
  const { requestKey } = certificate
  const replaced = newCertificate({ names: ['b.test', '10.0.0.5'], requestKey })
  await running.service.store.addCertificate(replaced, newAudit())
  await running.service.store.addCertificate(certificate, newAudit())
  await add(running, ['xn--bcher-kva.test'], 4)
  const sha256 = hash('sha256', certificate.certificate)
    .toUpperCase()
    .replace(/..(?=.)/g, '$&:')
  const wildcard = [/<strong>x.a.test<\/strong> is covered by a wildcard/, /covers x.a.test/]
  const cases: [q: string, found: string[], said: RegExp[]][] = [
    ['https://X.a.test/y', ['*.a.test', 'x.a.test.example.com'], wildcard],
    [
      'y.x.a.test',
      [],
      [/no certificate that is valid for <strong>y.x.a.test/, /&quot;y.x.a.test&quot;/],
    ],
    [
      'bücher.test',
      ['xn--bcher-kva.test'],
      [/<strong>xn--bcher-kva.test<\/strong> has a valid certificate/],
    ],
    ['10.0.0.5', ['b.test'], [/<strong>10.0.0.5<\/strong> has a valid certificate/]],
    ['00:0A:BC', ['b.test'], []],
    [`SHA256 Fingerprint=${sha256}`, ['b.test'], []],
    [
      hash('sha256', replaced.certificate),
      [],
      [/No certificate in use that you may see has the SHA-256/],
    ],
    [
      'ab'.repeat(32),
      [],
      [/No certificate in use that you may see has the SHA-256 fingerprint abab/],
    ],
    ['ab'.repeat(20), [], [/has the serial number abab.*enter that of SHA-256/]],
    ['none', [], [/No name that you may see contains “none”/]],
  ]
  const { cookie } = await enter(running, KEY)
  const listed = (text: string) =>
    [...text.matchAll(/class="name"><b title="[^"]*">([^<]+)/g)].map(([, name]) => name)
  for (const [q, found, said] of cases) {
    const { text } = await browse(running, 'GET', `/?${new URLSearchParams({ q })}`, { cookie })
    t.same(listed(text), found, q)
    for (const what of said) t.match(text, what, q)
  }
  const team = await enter(running, LIMITED)
  for (const q of ['b.test', sha256, '0abc', '10.0.0.5']) {
    const url = `/?${new URLSearchParams({ q })}`
    const { text } = await browse(running, 'GET', url, { cookie: team.cookie })
    t.same(listed(text), [], `${q}: not for those who may not read it`)
    t.notMatch(text, /class="notice good"/, q)
  }
})

t.test(
  'the inventory refreshes itself when it is told to, and that is no use of a session',
  async (t) => {
    const running = await start(t)
    const { cookie } = await enter(running, KEY)
    const seen = await browse(running, 'GET', '/?order=name&refresh=on', { cookie })
    t.equal(seen.headers.refresh, '60; url=/?order=name&refresh=auto')
    t.match(seen.text, 'href="/?order=name">Stop refreshing</a>')
    for (const url of ['/', '/?refresh=off', '/?q=', '/?q=app&refresh=on']) {
      const { status, headers } = await browse(running, 'GET', url, { cookie })
      t.match([status, headers.refresh], [200, undefined], url)
    }
    for (let minute = 0; minute < 14; minute += 1) {
      await running.clock.advance(60_000)
      const { status, headers } = await browse(running, 'GET', '/?refresh=auto', { cookie })
      t.match([status, headers.refresh], [200, '60; url=/?refresh=auto'], `minute ${minute}`)
    }
    await running.clock.advance(60_000)
    const ended = await browse(running, 'GET', '/?refresh=auto', { cookie })
    t.match([ended.status, ended.headers.refresh], [401, undefined])
  },
)

t.test('no query does harm', async (t) => {
  const running = await start(t)
  await add(running, ['app.test'], 1)
  const { cookie } = await enter(running, KEY)
  const texts = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.constantFrom('<script>', '"><img src=x>', '\0', '1-1', '1-a', '9'.repeat(400), "'; DROP"),
    fc.constantFrom('next', 'name', 'due', 'ca', 'auto', '__proto__'),
  )
  const members = fc.constantFrom('q', 'order', 'state', 'issuer', 'after', 'before', 'refresh')
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(members, texts), { maxLength: 4 }), async (pairs) => {
      const url = `/?${new URLSearchParams(pairs)}`
      const { status, text, headers } = await browse(running, 'GET', url, { cookie })
      return (
        [200, 400].includes(status) &&
        !/<img|<script(?!>\nfor \(const time of)/.test(text) &&
        /^[\x20-\x7e]*$/.test(String(headers.refresh ?? ''))
      )
    }),
    // No name has these characters, so that nothing is searched.
    {
      numRuns: 300,
      examples: [
        [
          [
            ['q', '">'],
            ['state', 'due'],
          ],
        ],
      ],
    },
  )
})

t.test('counts are of what a visitor may read', async (t) => {
  const running = await start(t, { auth: { psk: { keys } } })
  const { store } = running.service
  for (let n = 0; n < 3; n += 1) await add(running, [`app${n}.a.test`], n + 1)
  const cases: [name: string, changes: object][] = [
    ['due.a.test', { renewAt: NOW }],
    ['ends.b.test', { renewAt: null }],
    ['ended.b.test', { renewAt: null, notAfter: NOW }],
  ]
  for (const [name, changes] of cases)
    await store.addCertificate(newCertificate({ names: [name], ...changes }), newAudit())
  const expected: [key: string, counts: string[], bar: string][] = [
    [
      KEY,
      [
        '6 All',
        '3 Renews',
        '1 Being renewed',
        '1 Not renewed',
        '0 Failing',
        '1 Expired',
        'Covered',
        'Not served',
      ],
      '7 Jan: 0 renewed, 1 expire without renewal',
    ],
    [
      LIMITED,
      [
        '4 All',
        '3 Renews',
        '1 Being renewed',
        '0 Not renewed',
        '0 Failing',
        '0 Expired',
        'Covered',
        'Not served',
      ],
      '3 Jan: 1 renewed, 0 expire without renewal',
    ],
  ]
  for (const [key, counts, bar] of expected) {
    const { cookie } = await enter(running, key)
    const { text } = await browse(running, 'GET', '/', { cookie })
    const tiles = [...text.matchAll(/<a class="tile.*?<\/a>/gs)].map(([tile]) =>
      tile.replace(/<[^>]*>/g, ''),
    )
    t.same(tiles, counts, key)
    t.match(text, 'Coming up, by day', key)
    t.match(text.replace(/<[^>]*>/g, ''), bar, key)
    const ended = await browse(running, 'GET', '/?state=ended', { cookie })
    const current = /<a class="tile[^>]*href="([^"]*)" aria-current="true">/.exec(ended.text)
    t.equal(current?.[1], '/?state=ended', 'a tile filters, and says that it does')
    const searched = await browse(running, 'GET', '/?q=app', { cookie })
    t.notMatch(searched.text, 'Ahead, by', 'not on a page of a search')
  }
})

t.test('counts of a visitor who may not read all are bounded, and say so', async (t) => {
  const running = await start(t, { auth: { psk: { keys } } })
  for (let n = 0; n < 501; n += 1) await add(running, [`app${n}.a.test`], 1)
  const { cookie } = await enter(running, LIMITED)
  const { text } = await browse(running, 'GET', '/', { cookie })
  t.match(text, '<strong>≥ 500 </strong><span>All<')
  t.match(text, 'Not all certificates were counted.')
  const all = await enter(running, KEY)
  t.match((await browse(running, 'GET', '/', { cookie: all.cookie })).text, '<strong>501 </strong>')
})

t.test('errors are pages here and problems elsewhere', async (t) => {
  expectWarnings(t, 'STORE_UNAVAILABLE')
  const running = await start(t)
  const { cookie } = await enter(running, KEY)
  Object.assign(running.service.store, {
    listCertificates: async () => {
      throw new StoreError('STORE_UNAVAILABLE', 'the disk, in detail')
    },
  })
  const answer = await browse(running, 'GET', '/', { cookie })
  t.match(answer, { status: 503, headers: { 'content-type': /^text\/html/ } })
  t.match(answer.text, 'check the disk and its permissions')
  t.notMatch(answer.text, 'in detail')
  const other = await browse(running, 'GET', '/sign-out', { cookie })
  t.match(other, { status: 405, headers: { 'content-type': 'application/problem+json' } })
})

t.test('the audit trail and the log have the address of the client', async (t) => {
  const running = await start(t, { server: { trustedProxies: ['10.0.0.2'] } })
  const headers = (client: string) => ({
    authorization: `APIKey ${KEY}`,
    'x-forwarded-for': client,
  })
  for (const [remoteAddress, client] of [
    ['10.0.0.2', '198.51.100.7'],
    ['198.51.100.9', '203.0.113.1'],
  ] as const)
    await running.app.inject({
      method: 'POST',
      url: '/api/certificate',
      remoteAddress,
      headers: headers(client),
      payload: { domain: `of-${remoteAddress.length}.test` },
    })
  const rows = await running.service.store.listAudit({ limit: 10 })
  t.strictSame(rows.map(({ remoteAddress }) => remoteAddress).sort(), [
    '198.51.100.7',
    '198.51.100.9',
  ])
  await running.close()
  const ips = running.logged
    .flatMap((lines) => lines.trim().split('\n'))
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg === 'request')
    .map(({ ip }) => ip)
  t.strictSame(ips, ['198.51.100.7', '198.51.100.9'])
})
