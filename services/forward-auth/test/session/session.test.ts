import { fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import t from 'tap'
import { namesOf, signBounded } from '../../src/session/bounded.ts'
import {
  type Authentication,
  authenticationsAfter,
  digestsOf,
  mailOf,
  nameAtProvider,
  openRow,
  personOf,
  type SessionContents,
  sealSession,
  seenMacOf,
  sessionOf,
} from '../../src/session/session.ts'
import type { SessionRow } from '../../src/store/store.ts'
import { ADA, keysOf, NEW_SECRET, OLD_SECRET } from './kit.ts'

const RELATION = { issuer: 'https://id.example', clientId: 'gatehouse' }
const BEGUN = Date.UTC(2030, 0, 1)
const KEYS = (await keysOf(OLD_SECRET)).record

const contents: SessionContents = {
  issuer: 'https://auth.example.com/portals/main',
  provider: 'corp',
  claims: ADA.claims,
  tokens: { refresh: 'r1' },
  browser: { userAgent: 'Mozilla/5.0', address: '203.0.113.7' },
}
const row: Omit<SessionRow, 'sealed' | 'seenMac'> = {
  ...digestsOf('main', ADA, 'at the provider', RELATION),
  ...{ sid: 'a', portal: 'main', issuedAt: BEGUN / 1_000, begun: BEGUN, lastSeen: BEGUN, rev: 7 },
  ...{ idle: 600_000, reRead: BEGUN, ends: BEGUN + 3_600_500, lease: 0, parent: null },
}

t.test('a row opens as what it was sealed for', async (t) => {
  const sealed = sealSession(row, contents, KEYS)
  t.match(openRow(sealed, KEYS), contents)
  t.notMatch(JSON.stringify(sealed), /Lovelace|Mozilla|203\.0|id\.example/i)

  const seen = { sid: row.sid, lastSeen: BEGUN + 1 }
  const touched = { ...sealed, ...seen, seenMac: seenMacOf(seen, KEYS), lease: BEGUN + 2 }
  t.match(openRow(touched, KEYS), contents, 'those change without a revision')
  const others: Partial<Record<keyof SessionRow, unknown>> = {
    ...{ sid: 'b', portal: 'other', person: 'x', mail: 'x', subject: null, providerSid: null },
    ...{
      issuedAt: 1,
      begun: BEGUN + 1,
      idle: null,
      reRead: BEGUN + 9e9,
      ends: BEGUN + 9e9,
      rev: 6,
      parent: 'x',
      lastSeen: BEGUN + 1,
      seenMac: seenMacOf({ sid: 'b', lastSeen: BEGUN }, KEYS),
    },
    sealed: `${sealed.sealed.slice(0, -4)}AAAA`,
  }
  const named = new Set([...Object.keys(others), 'lease'])
  t.strictSame(named, new Set(Object.keys(sealed)), 'each column is tried')
  for (const [column, value] of Object.entries(others))
    t.equal(openRow({ ...sealed, [column]: value }, KEYS), undefined, column)
})

t.test('a row opens with the keys that are there', async (t) => {
  const sealed = sealSession(row, contents, KEYS)
  t.match(openRow(sealed, (await keysOf(NEW_SECRET, OLD_SECRET)).record), contents, 'rotated')
  t.equal(openRow(sealed, (await keysOf(NEW_SECRET)).record), undefined, 'gone')
  t.equal(openRow(sealed, (await keysOf(OLD_SECRET)).login), undefined, 'for another purpose')
})

t.test('what could not be opened again is not sealed', async (t) => {
  const withGroups = (count: number) => {
    const groups = Array.from({ length: count }, (_, i) => `CN=Group ${i},${'OU=x,'.repeat(40)}`)
    return { ...contents, claims: { ...ADA.claims, groups } }
  }
  for (const count of [250, 1_000])
    t.match(openRow(sealSession(row, withGroups(count), KEYS), KEYS), withGroups(count))
  t.throws(() => sealSession(row, withGroups(6_000), KEYS), {
    code: 'FWA_SESSION_TOO_LARGE',
    message: /^what corp says of you/,
  })
})

t.test('a session says what its row does', async (t) => {
  const session = sessionOf(sealSession(row, contents, KEYS), contents)
  t.match(session, {
    ...{ sid: 'a', portal: 'main', person: row.person, rev: 7, issuer: contents.issuer },
    ...{ iat: BEGUN / 1_000, exp: BEGUN / 1_000 + 3_600, isReadable: true, profile: ADA },
  })
  t.notMatch(JSON.stringify(session), /r1|Mozilla/, 'tokens and browser stay in the row')
  for (const part of [session, session.profile, session.profile.claims])
    t.ok(Object.isFrozen(part), 'all requests share it')

  const readable: [tokens: SessionContents['tokens'], isReadable: boolean][] = [
    [{}, false],
    [{ id: 'x' }, false],
    [{ access: 'x' }, true],
    [{ refresh: 'x' }, true],
    [undefined, true],
  ]
  for (const [tokens, isReadable] of readable)
    t.match(sessionOf(sealSession(row, contents, KEYS), { ...contents, tokens }), { isReadable })

  const claims = fromClaims('corp', { sub: 'ada', _claim_names: { groups: 'src1' } }).claims
  const unknown = sessionOf(sealSession(row, contents, KEYS), { ...contents, claims })
  t.throws(() => unknown.profile.claims.groups, { code: 'PROFILE_CLAIM_UNKNOWN' })
})

t.test(
  'a session remembers the newest authentication of each acr, and so many of them',
  async (t) => {
    const after = (...all: object[]) =>
      all.reduce<readonly Authentication[]>(
        (known, claims) =>
          authenticationsAfter(known, fromClaims('corp', { sub: 'a', ...claims }).claims),
        [],
      )
    const [pwd, mfa] = [
      { acr: 'pwd', auth_time: 1 },
      { acr: 'mfa', auth_time: 2 },
    ]
    const later = { acr: 'pwd', auth_time: 3 }
    const rows: [sent: object[], kept: object[]][] = [
      [[pwd], [pwd]],
      [
        [pwd, mfa],
        [mfa, pwd],
      ],
      [
        [pwd, mfa, later],
        [later, mfa],
      ],
      [
        [later, mfa, pwd],
        [later, mfa],
      ],
      [[mfa, { acr: 'mfa' }], [mfa]],
      [[{ auth_time: 1 }, { auth_time: 2 }], [{ auth_time: 2 }]],
      [[{ acr: ['mfa'], auth_time: '1' }], [{}]],
      [[{ _claim_names: { acr: 'x', auth_time: 'x' } }], [{}]],
      [[{ acr: 'x'.repeat(257) }], [{}]],
    ]
    for (const [sent, kept] of rows) t.strictSame(after(...sent), kept)
    const many = Array.from({ length: 100 }, (_, i) => ({ acr: `${i}`, auth_time: i }))
    t.strictSame(after(...many), many.slice(-8).reverse())
  },
)

t.test('digests tell people apart, and what may be compared alone', async (t) => {
  const named = (provider: string, id: string) => ({ provider, id })
  const all = [
    personOf('main', named('corp', 'ada')),
    personOf('other', named('corp', 'ada')),
    personOf('main', named('code', 'ada')),
    personOf('main', named('corp', 'Ada')),
    personOf('main', named('corpa', 'da')),
    mailOf('main', 'ada'),
    mailOf('main', 'ada@example.com'),
    mailOf('other', 'ada@example.com'),
    nameAtProvider(RELATION, 'sub', 'ada'),
    nameAtProvider(RELATION, 'sid', 'ada'),
    nameAtProvider({ ...RELATION, clientId: 'other' }, 'sub', 'ada'),
    nameAtProvider({ ...RELATION, issuer: 'https://other.example' }, 'sub', 'ada'),
  ]
  t.equal(new Set(all).size, all.length)
  for (const digest of all) t.match(digest, /^[\w-]{22}$/)
  t.equal(mailOf('main', 'ADA@Example.com'), mailOf('main', 'ada@example.com'))

  const bare = fromClaims('corp', { sub: 'ada' })
  const none = digestsOf('main', bare, undefined, RELATION)
  t.match(none, { mail: null, providerSid: null, subject: nameAtProvider(RELATION, 'sub', 'ada') })
  const without = digestsOf('main', bare, 'x', undefined)
  t.match(without, { subject: null, providerSid: null }, 'a provider without logout tokens')
})

t.test('claims that do not fit are left out in their order, and named', async (t) => {
  const sign = (claims: object) => JSON.stringify(claims)
  const claims = { sub: 'ada', a: 'x'.repeat(100), b: 'y'.repeat(100), c: 'z' }
  const rows: [max: number, expected: object | undefined][] = [
    [1_000, claims],
    [200, { sub: 'ada', b: claims.b, c: 'z', _claim_names: { a: 'unknown' } }],
    [100, { sub: 'ada', c: 'z', _claim_names: { a: 'unknown', b: 'unknown' } }],
    [10, undefined],
  ]
  for (const [max, expected] of rows) {
    const token = signBounded(claims, ['a', 'b', 'absent'], sign, max)
    t.strictSame(token && JSON.parse(token), expected, `${max}`)
  }
  const before = { ...claims, _claim_names: { groups: 'src1' } }
  const names = JSON.parse(signBounded(before, ['a'], sign, 200) ?? '{}')._claim_names
  t.strictSame(names, { groups: 'src1', ...namesOf(['a']) }, 'beside those of the provider')
})

t.test('property: a bounded token fits, and holds or names each claim', async () => {
  const values = fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.string({ maxLength: 90 }))
  fc.assert(
    fc.property(values, fc.integer({ min: 20, max: 400 }), (optional, max) => {
      const claims = { ...optional, SUB: 'ada' }
      const token = signBounded(claims, Object.keys(optional), JSON.stringify, max)
      if (token === undefined) return true
      const held = JSON.parse(token)
      const named = Object.keys(held._claim_names ?? {})
      const all = [...Object.keys(held).filter((name) => name !== '_claim_names'), ...named]
      const isWhole = all.sort().join() === Object.keys(claims).sort().join()
      return token.length <= max && isWhole
    }),
  )
})
