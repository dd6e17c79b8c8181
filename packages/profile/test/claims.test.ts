import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { emailDomain } from '../src/claims.ts'
import { fromClaims, type Profile } from '../src/index.ts'
import { ADA } from './ada.ts'
import { anyClaims, identifiedClaims } from './arbitrary.ts'

const read = (claims: object): Profile => fromClaims('corp', { sub: '1', ...claims })

t.test('a profile is made from the claims of the sample', async (t) => {
  const { claims, ...fields } = fromClaims('corp', { ...ADA, roles: ['dev'] })
  t.strictSame(fields, {
    provider: 'corp',
    id: '5f0c2c1e',
    name: { full: 'Ada Lovelace', first: 'Ada', last: 'Lovelace' },
    email: { address: 'ada@example.com', verified: true },
    picture: 'https://example.com/ada.png',
    groups: ['admin', 'ops'],
    roles: ['dev'],
  })
  t.strictSame({ ...claims }, { ...ADA, roles: ['dev'] })
})

t.test('fields that are not shared are absent', async (t) => {
  const nothing = ['provider', 'id', 'claims']
  t.strictSame(Object.keys(read({})), nothing)
  t.strictSame(Object.keys(read({ name: '', email: '', groups: [], picture: null })), nothing)
})

t.test('the ID is the subject of the provider', async (t) => {
  for (const sub of ['1', 'auth0|a b', 'x'.repeat(255)])
    t.equal(fromClaims('corp', { sub }).id, sub, `${sub.slice(0, 20)} is kept`)

  const refused = [undefined, null, '', 1, ['1'], ' 1', '1 ', '1\n', 'jörg', '1\u202e', '\0']
  for (const sub of [...refused, 'x'.repeat(256), 'x'.repeat(1e6)])
    t.throws(() => fromClaims('corp', { sub, id: '1' }), { code: 'PROFILE_ID_INVALID' })
})

t.test('the name is the best that the provider shared', async (t) => {
  const full: [why: string, claims: object, full: string | undefined][] = [
    ['as sent', { name: 'Ada Lovelace' }, 'Ada Lovelace'],
    ['nickname first', { nickname: 'ada', given_name: 'Ada', preferred_username: 'a' }, 'ada'],
    ['then the parts', { given_name: 'Ada', middle_name: 'K', family_name: 'L' }, 'Ada K L'],
    ['one part', { family_name: 'Lovelace', preferred_username: 'ada' }, 'Lovelace'],
    ['then the user name', { preferred_username: 'ada' }, 'ada'],
    ['the next one if unusable', { name: 7, nickname: ['x'], preferred_username: 'ada' }, 'ada'],
    ['line breaks become a space', { name: 'Ada\r\nID: root\u2028x\u0085y' }, 'Ada ID: root x y'],
    ['control characters too', { name: '\0Ada\u001b[31m\u007f' }, 'Ada [31m'],
    ['bidi marks go', { name: '\u202eadA\u2066\u200f\u061c' }, 'adA'],
    ['lone surrogates go', { name: 'A\ud800da' }, 'Ada'],
    ['other scripts stay', { name: 'علی‌رضا 👩‍🚀' }, 'علی‌رضا 👩‍🚀'],
    ['nothing left', { name: '\u202e\n', nickname: 'ada' }, 'ada'],
    ['up to 256 characters', { name: 'x'.repeat(256) }, 'x'.repeat(256)],
    ['not more', { name: 'x'.repeat(257) }, undefined],
    ['and not 1 MB', { name: 'x'.repeat(1e6), nickname: 'ada' }, 'ada'],
  ]
  for (const [why, claims, expected] of full) t.equal(read(claims).name?.full, expected, why)
  t.strictSame(read({ given_name: 'Ada\nB' }).name, { full: 'Ada B', first: 'Ada B' })
})

t.test('only a plain e-mail address is kept', async (t) => {
  const longest = `${'a'.repeat(64)}@${`${'b'.repeat(61)}.`.repeat(3)}com`
  const good = [
    'a@b',
    longest,
    "o'neil+x@mail.example.com",
    'a.b@xn--bcher-kva.example',
    'A@EXAMPLE.com',
  ]
  for (const email of good)
    t.strictSame(read({ email, email_verified: true }).email, { address: email, verified: true })

  const bad = [
    ...['a', '@b', 'a@', 'a@b@c', 'a@evil.com@example.com', 'a b@c', 'a@b c', '"a@b"@c', 'a@[::1]'],
    ...[
      '.a@b',
      'a.@b',
      'a..b@c',
      'a@-b',
      'a@b-',
      'a@b.',
      'a@.b',
      'a@b..c',
      'a@b\n',
      'a@b\0',
      'ä@b',
    ],
    ...['a@bücher.example', 'a\u202e@b', 'a@b,c@d', '<a@b>', 'a@b_c', `${'a'.repeat(65)}@b`],
    ...[
      `${longest}m`,
      `a@${'b'.repeat(64)}`,
      `a@${'b.'.repeat(130)}c`,
      7,
      true,
      ['a@b'],
      { address: 'a@b' },
    ],
  ]
  for (const email of bad)
    t.equal(read({ email, email_verified: true }).email, undefined, JSON.stringify(email))

  const verified: [claims: object, verified: boolean][] = [
    [{ email_verified: true }, true],
    [{ verified_email: true }, true],
    [{ email_verified: false, verified_email: true }, false],
    [{ email_verified: null, verified_email: true }, true],
    [{ email_verified: false }, false],
    [{}, false],
    [{ email_verified: 'true' }, true],
    [{ email_verified: 'false' }, false],
    [{ email_verified: 'TRUE' }, false],
    [{ email_verified: 1 }, false],
  ]
  for (const [claims, expected] of verified)
    t.equal(read({ email: 'a@b', ...claims }).email?.verified, expected, JSON.stringify(claims))
})

t.test('the domain of an address is after its last @', async (t) => {
  t.equal(emailDomain('ada@Example.COM'), 'example.com')
  t.equal(emailDomain('ada@evil.example@example.com'), 'example.com')
})

t.test('only an http(s) URL is kept as picture', async (t) => {
  const pictures: [sent: unknown, picture: string | undefined][] = [
    ['https://example.com/a.png?s=1#x', 'https://example.com/a.png?s=1#x'],
    ['http://example.com/a.png', 'http://example.com/a.png'],
    ['HTTPS://EXAMPLE.com/a"<b', 'https://example.com/a%22%3Cb'],
    ['javascript:alert(1)', undefined],
    ['data:image/png;base64,AAAA', undefined],
    ['//example.com/a.png', undefined],
    ['https://example.com/a b', undefined],
    ['https://exam\nple.com/', undefined],
    [' https://example.com/', undefined],
    ['https://exämple.com/', undefined],
    ['https://', undefined],
    [`https://example.com/${'a'.repeat(2_029)}`, undefined],
    [`https://example.com/${'a'.repeat(1e6)}`, undefined],
    [{ url: 'https://example.com/' }, undefined],
  ]
  for (const [picture, expected] of pictures)
    t.equal(read({ picture }).picture, expected, String(picture).slice(0, 60))
})

t.test('groups and roles are lists of names', async (t) => {
  const many = (length: number) => Array.from({ length }, (_, i) => `${i}`)
  const lists: [why: string, several: unknown, single: unknown, list: string[] | undefined][] = [
    ['in order, once', ['b', 'a', 'b'], undefined, ['b', 'a']],
    ['singular', undefined, ['a'], ['a']],
    ['both', ['a'], 'b', ['a', 'b']],
    ['one text is one entry', 'Not admin', null, ['Not admin']],
    ['numbers as text', [7, 'a'], undefined, ['7', 'a']],
    [
      'dirty ones left out',
      ['a\nb', 'ad\u202emin', '\0', '', '\u2028', '\ud800', 'x'],
      null,
      ['x'],
    ],
    ['long ones left out', ['a'.repeat(257), 'b'.repeat(256)], null, ['b'.repeat(256)]],
    ['up to 1,000', many(1_000), undefined, many(1_000)],
    ['more are unknown', many(1_001), undefined, undefined],
    ['thousands are unknown', ['a'], many(100_000), undefined],
    ['objects are unknown', [{ name: 'admin' }], undefined, undefined],
    ['lists of lists are unknown', [['admin']], undefined, undefined],
    ['booleans are unknown', true, undefined, undefined],
    ['objects by name are unknown', { admin: {} }, undefined, undefined],
  ]
  for (const [why, several, single, expected] of lists) {
    t.strictSame(read({ groups: several, group: single }).groups, expected, `groups: ${why}`)
    t.strictSame(read({ roles: several, role: single }).roles, expected, `roles: ${why}`)
  }
})

t.test('other claims are kept as sent, up to a limit', async (t) => {
  const kept = { department: 'r&d\n', level: 3, on: false, address: { country: 'UK', tags: [1] } }
  const { claims } = read({ ...kept, nothing: null, empty: '' })
  t.strictSame({ ...claims }, { sub: '1', ...kept })
  t.equal(claims.id, '1', 'sub is read as id')
  t.equal(
    read({ nickname: 'ada' }).claims.name,
    'ada',
    'a full name made of others is read as name',
  )
  t.notOk('x' in claims || 'toString' in claims)

  const dropped = { iss: 'a', aud: 'b', exp: 1, nonce: 'c', sid: 'd', _claim_sources: { s: {} } }
  t.strictSame({ ...read(dropped).claims }, { sub: '1' }, 'not what concerns the token')

  const unsafe = JSON.parse('{"__proto__": {"x": 1}, "constructor": "x", "a": {"__proto__": 1}}')
  t.strictSame(
    { ...read(unsafe).claims },
    { sub: '1', a: {} },
    'not what means something to JavaScript',
  )
})

t.test('a claim that is not kept is unknown, not missing', async (t) => {
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])
  const unknown: [name: string, sent: object][] = [
    ['bio', { bio: 'x'.repeat(4_097) }],
    ['picture', { picture: 'x'.repeat(1e6) }],
    ['deep', { deep: deep(5) }],
    ['bottomless', { bottomless: JSON.parse('['.repeat(1e5) + ']'.repeat(1e5)) }],
    ['wide', { wide: new Array(3_000).fill(1) }],
    ['groups', { groups: { admin: true } }],
    ['groups', { group: new Array(1_001).fill('a') }],
    ['groups', { _claim_names: { groups: 'src1' }, _claim_sources: { src1: {} } }],
    ['groups', { _claim_names: { group: 'src1' } }],
    ['email', { email: 'a@b@c' }],
    ['email_verified', { email_verified: 'yes' }],
  ]
  for (const [name, sent] of unknown) {
    const { claims } = read(sent)
    t.throws(() => claims[name], { code: 'PROFILE_CLAIM_UNKNOWN' }, name)
    t.strictSame({ ...claims }, { sub: '1', _claim_names: { [name]: 'unknown' } })
  }
  t.strictSame(read({ deep: deep(4) }).claims.deep, deep(4), 'four levels are kept')
  const bio = 'x'.repeat(4_094)
  t.equal(read({ bio }).claims.bio, bio, '4,096 characters of JSON are kept')
  t.throws(() => read({ bio: `${bio}x` }).claims.bio, { code: 'PROFILE_CLAIM_UNKNOWN' })
  t.strictSame(
    read({ _claim_names: { groups: 's' }, groups: ['a'] }).groups,
    ['a'],
    'here after all',
  )
  t.strictSame({ ...read({ _claim_names: 'groups' }).claims }, { sub: '1' })
})

t.test('too many claims and too long names are refused', async (t) => {
  const many = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, 1]))
  t.equal(Object.keys(read(many(199)).claims).length, 200)
  t.equal(read({ ['x'.repeat(256)]: 1 }).claims['x'.repeat(256)], 1)
  const refused = [many(200), { _claim_names: many(201) }, { ['x'.repeat(257)]: 1 }]
  for (const claims of refused) t.throws(() => read(claims), { code: 'PROFILE_CLAIMS_INVALID' })
})

t.test('any claims make a profile or throw a ProfileError', async () => {
  fc.assert(
    fc.property(anyClaims, (claims) => {
      try {
        return typeof fromClaims('corp', claims).id === 'string'
      } catch (error) {
        return (error as Error).name === 'ProfileError'
      }
    }),
    { numRuns: 1_000 },
  )
})

t.test('the claims of a profile make the same profile again', async () => {
  fc.assert(
    fc.property(identifiedClaims, (sent) => {
      const first = fromClaims('corp', sent)
      const stored = JSON.parse(JSON.stringify(first.claims))
      const second = fromClaims('corp', {
        ...stored,
        iss: 'https://auth',
        aud: ['x'],
        exp: 1,
        sid: 's',
      })
      const seen = (profile: Profile) => ({
        ...profile,
        claims: Object.getOwnPropertyNames(profile.claims).sort(),
        kept: { ...profile.claims },
      })
      return isDeepStrictEqual(seen(second), seen(first))
    }),
    { numRuns: 1_000 },
  )
})
