import type { Profile } from '@gatehouse/profile'
import fc from 'fast-check'
import t from 'tap'
import { type HeadersConfig, headerRows } from '../src/header-presets.ts'
import {
  checkHeaders,
  createHeaders,
  createUser,
  ENCODINGS,
  encodeJson,
  type Identity,
  PROPERTY_NAMES,
  USER_KINDS,
} from '../src/headers.ts'
import { profileOf } from './person.ts'

const identityOf = (profile: Profile): Identity => ({
  method: 'session',
  portal: 'main',
  profile,
  session: { sid: 'sid', exp: 1 },
})

type Encoding = (typeof ENCODINGS)[number]

/** The identity headers of a 200. */
function sent(
  config: HeadersConfig,
  who: Profile | undefined,
  { user = createUser(undefined, false), encoding = 'percent' as Encoding, assertion = '' } = {},
) {
  const headers = createHeaders(headerRows(config), user, encoding)
  const {
    'cache-control': _cache,
    'content-type': _type,
    ...identity
  } = checkHeaders(
    {
      headers,
      dynamicHeaders: assertion === '' ? [] : [assertion],
    },
    who && identityOf(who),
  )
  return identity
}

/** The value of one header with a claim, as it is on the wire. */
const wireOf = (it: unknown, encoding: Encoding) =>
  sent([{ name: 'X-It', claim: 'it' }], profileOf({ it }), { encoding })['x-it'] ?? ''

const bytes = (text: string) => Buffer.from(text).toString('latin1')

t.test('encodes texts and lists for headers', async (t) => {
  const table: [it: string | string[], Record<Encoding, string>][] = [
    ['Ada Lovelace', { percent: 'Ada Lovelace', 'utf-8': 'Ada Lovelace', rfc8187: 'Ada Lovelace' }],
    ['Zoë', { percent: 'Zo%C3%AB', 'utf-8': bytes('Zoë'), rfc8187: "UTF-8''Zo%C3%AB" }],
    ['100%', { percent: '100%25', 'utf-8': '100%', rfc8187: '100%' }],
    [
      '😀, *',
      {
        percent: '%F0%9F%98%80, *',
        'utf-8': bytes('😀, *'),
        rfc8187: "UTF-8''%F0%9F%98%80%2C%20%2A",
      },
    ],
    ["utf-8''x", { percent: "utf-8''x", 'utf-8': "utf-8''x", rfc8187: "UTF-8''utf-8%27%27x" }],
    ['', { percent: '', 'utf-8': '', rfc8187: '' }],
    [
      ['a b', 'c,d', ' admin', 'ü', '1%'],
      {
        percent: 'a b,c%2Cd,%20admin,%C3%BC,1%25',
        'utf-8': `a b,c%2Cd,%20admin,${bytes('ü')},1%25`,
        rfc8187: "a b,UTF-8''c%2Cd,UTF-8''%20admin,UTF-8''%C3%BC,1%",
      },
    ],
    [[], { percent: '', 'utf-8': '', rfc8187: '' }],
  ]
  for (const [it, expected] of table)
    for (const encoding of ENCODINGS)
      t.equal(wireOf(it, encoding), expected[encoding], `${JSON.stringify(it)} as ${encoding}`)
  for (const encoding of ENCODINGS)
    t.equal(wireOf({ a: ['ü'] }, encoding), '{"a":["\\u00fc"]}', 'an object is JSON in ASCII')
  t.equal(encodeJson({ a: 'ü😀\u2028\x7f' }), '{"a":"\\u00fc\\ud83d\\ude00\\u2028\\u007f"}')
})

/** What an app reads, which knows the encoding. */
const READERS: Readonly<Record<Encoding, (wire: string) => string>> = {
  percent: decodeURIComponent,
  'utf-8': (wire) => decodeURIComponent(Buffer.from(wire, 'latin1').toString()),
  rfc8187: (wire) => (/^utf-8''/i.test(wire) ? decodeURIComponent(wire.slice(7)) : wire),
}

t.test('an app that decodes a list has its entries, whatever they hold', async (t) => {
  const plain = fc
    .string({ unit: 'grapheme', minLength: 1 })
    .filter((text) => !/\p{Cc}/u.test(text))
  const odd = fc.constantFrom(' ', ',', '%', '%2C', "UTF-8''a", '=?utf-8?q?a?=')
  const entry = fc.array(fc.oneof(plain, odd), { minLength: 1 }).map((parts) => parts.join(''))
  for (const encoding of ENCODINGS)
    fc.assert(
      fc.property(fc.array(entry, { minLength: 1, maxLength: 5 }), (entries) => {
        const wire = wireOf(entries, encoding)
        const read = wire.split(',').map((part) => READERS[encoding](part.replace(/^ +| +$/g, '')))
        t.same(read, entries)
        if (encoding !== 'utf-8') t.match(wire, /^[ -~]*$/)
      }),
      { numRuns: 200 },
    )
})

const ADA = profileOf({
  name: 'Ada Lovelace',
  preferred_username: 'ada.l',
  email: 'ada@example.com',
  email_verified: true,
  picture: 'https://example.com/ada.png',
  groups: ['admin', 'ops'],
  level: 3,
  tags: ['a', 'b'],
  address: { country: 'GB' },
})

t.test('headers of presets and lists', async (t) => {
  t.strictSame(sent('default', ADA), {
    'x-forwarded-user': 'ada',
    'x-forwarded-displayname': 'Ada Lovelace',
    'x-authenticated-user': JSON.stringify({
      provider: 'corp',
      portal: 'main',
      user: {
        id: 'ada',
        name: { full: 'Ada Lovelace' },
        picture: 'https://example.com/ada.png',
        groups: ['admin', 'ops'],
        email: { address: 'ada@example.com', verified: true },
      },
    }),
  })
  t.strictSame(sent('remote-*', ADA), {
    'remote-user': 'ada',
    'remote-name': 'Ada Lovelace',
    'remote-email': 'ada@example.com',
    'remote-groups': 'admin,ops',
  })
  t.strictSame(sent(['x-auth-request-*'], ADA), {
    'x-auth-request-user': 'ada',
    'x-auth-request-email': 'ada@example.com',
    'x-auth-request-preferred-username': 'ada.l',
    'x-auth-request-groups': 'admin,ops',
  })
  t.strictSame(sent('tailscale-*', ADA), {
    'tailscale-user-login': 'ada.l',
    'tailscale-user-name': 'Ada Lovelace',
    'tailscale-user-profile-pic': 'https://example.com/ada.png',
  })
  const rows: HeadersConfig = [
    { name: 'X-Level', claim: 'level' },
    { name: 'X-Tags', claim: 'tags' },
    { name: 'X-Address', claim: 'address' },
    { name: 'X-Portal', property: 'portal' },
    { name: 'X-Provider', property: 'provider' },
  ]
  t.strictSame(sent(rows, ADA, { assertion: 'x-token' }), {
    'x-level': '3',
    'x-tags': 'a,b',
    'x-address': '{"country":"GB"}',
    'x-portal': 'main',
    'x-provider': 'corp',
    'x-token': '',
  })
  t.strictSame(sent([], ADA), {}, 'none')
})

t.test('a header of the list replaces that of a preset, wherever it stands', async (t) => {
  const own = { name: 'remote-USER', claim: 'preferred_username' }
  for (const config of [
    ['remote-*', own],
    [own, 'remote-*'],
  ] as HeadersConfig[])
    t.strictSame(sent(config, ADA), {
      'remote-user': 'ada.l',
      'remote-name': 'Ada Lovelace',
      'remote-email': 'ada@example.com',
      'remote-groups': 'admin,ops',
    })
  t.match(sent(['default', 'remote-*', own], ADA), {
    'x-forwarded-user': 'ada',
    'remote-user': 'ada.l',
  })
})

t.test('writes headers for Tailscale as Tailscale Serve does, in any encoding', async (t) => {
  // Values of `mime.QEncoding.Encode("utf-8", …)` in Go.
  const table: [name: string, wire: string][] = [
    ['Ferris Büller', '=?utf-8?q?Ferris_B=C3=BCller?='],
    ['Ada_Lovelace', 'Ada_Lovelace'],
    ['ä_=?', '=?utf-8?q?=C3=A4=5F=3D=3F?='],
    ['é'.repeat(12), `=?utf-8?q?${'=C3=A9'.repeat(10)}?= =?utf-8?q?${'=C3=A9'.repeat(2)}?=`],
  ]
  for (const encoding of ENCODINGS)
    for (const [name, wire] of table) {
      const headers = sent('tailscale-*', profileOf({ name }), { encoding })
      t.equal(headers['tailscale-user-name'], wire, `${name}, ${encoding}`)
    }
  const forged = profileOf({ preferred_username: '=?utf-8?q?admin?=' })
  t.equal(
    sent('tailscale-*', forged)['tailscale-user-login'],
    '=?utf-8?q?=3D=3Futf-8=3Fq=3Fadmin=3F=3D?=',
    'what looks like an encoded word is encoded',
  )
})

t.test('sends every configured header, empty without a value', async (t) => {
  const config: HeadersConfig = [
    'remote-*',
    'x-auth-request-*',
    'tailscale-*',
    { name: 'X-Level', claim: 'level' },
  ]
  const bare = sent(config, profileOf())
  t.same(
    Object.entries(bare).filter(([, value]) => value !== ''),
    [
      ['remote-user', 'ada'],
      ['x-auth-request-user', 'ada'],
    ],
  )
  t.equal(Object.keys(bare).length, 12)
  const nobody = Object.values(sent(config, undefined, { assertion: 'x-token' }))
  t.same(
    nobody,
    Array(Object.keys(bare).length + 1).fill(''),
    'and all of them empty for a preflight',
  )
})

t.test('sends no unverified e-mail address', async (t) => {
  const unverified = profileOf({ email: 'ada@example.com' })
  const config: HeadersConfig = ['default', 'remote-*', { name: 'X-Mail', claim: 'email' }]
  t.notMatch(JSON.stringify(sent(config, unverified)), 'example.com')
  const user = createUser('email', false)
  t.match(sent('remote-*', unverified, { user }), { 'remote-user': '' })
  t.match(sent('remote-*', ADA, { user }), { 'remote-user': 'ada@example.com' })
})

t.test('the same subject at two providers is two users', async (t) => {
  const claims = { preferred_username: 'ada.l' }
  const table: [
    kind: Parameters<typeof createUser>[0],
    several: boolean,
    one: string,
    two: string,
  ][] = [
    [undefined, true, 'one:ada', 'two:ada'],
    [undefined, false, 'ada', 'ada'],
    ['subject', true, 'ada', 'ada'],
    ['username', true, 'ada.l', 'ada.l'],
    ['email', true, '', ''],
  ]
  for (const [kind, several, one, two] of table) {
    const user = createUser(kind, several)
    const users = ['one', 'two'].map((at) => user(identityOf(profileOf(claims, at))))
    t.same(users, [one, two], `${kind}`)
  }
  const username = createUser('username', false)
  t.equal(username(identityOf(profileOf())), '', 'nobody without the claim')
  t.equal(username(identityOf(profileOf({ preferred_username: ['root'] }))), '', 'nor with a list')
})

t.test('no header tells an app the same of a person and of a program', async (t) => {
  const prefixes = ['psk:', 'corp-ci:', 'https://Login.example.com/:']
  const programs = prefixes.map((prefix) => `${prefix}ci`)
  const rows = [
    ...PROPERTY_NAMES.map((property) => ({ name: 'X-It', property })),
    ...['sub', 'login', 'email', 'preferred_username', 'name'].map((claim) => ({
      ...{ name: 'X-It', claim },
    })),
  ]
  /** Those that say the same of everybody, or of many. */
  const isOfMany = (property: unknown) =>
    ['portal', 'provider', 'method', 'groups', 'roles'].includes(String(property))
  const nameOf = fc.oneof(
    fc.constantFrom(...programs, ...programs.map((id) => id.toUpperCase()), 'ada', 'psk', 'ci'),
    fc.tuple(fc.constantFrom(...prefixes, 'x'), fc.string()).map((parts) => parts.join('')),
  )
  const one = fc.record({
    row: fc.constantFrom(...rows),
    encoding: fc.constantFrom(...ENCODINGS),
    kind: fc.constantFrom(undefined, ...USER_KINDS),
    several: fc.boolean(),
    method: fc.constantFrom('session' as const, 'agent' as const),
    claims: fc.record({
      sub: nameOf.filter((text) => /^[!-~]+$/.test(text)),
      ...{ preferred_username: nameOf, name: nameOf, login: nameOf, email: nameOf },
      email_verified: fc.boolean(),
    }),
  })
  const seen = { refused: 0, told: 0 }
  fc.assert(
    fc.property(one, ({ row, encoding, kind, several, method, claims }) => {
      const [header] = createHeaders([row], createUser(kind, several), encoding, prefixes)
      const about = (identity: Identity) => {
        try {
          return checkHeaders({ headers: [header!], dynamicHeaders: [] }, identity)['x-it']
        } catch {
          return undefined
        }
      }
      const told = about({ ...identityOf(profileOf(claims)), method })
      seen[told === undefined ? 'refused' : 'told']++
      if (!told || ('property' in row && isOfMany(row.property))) return
      for (const id of programs) {
        const profile = { provider: 'corp-ci', id, claims: { sub: id } }
        const ofProgram = about({ method: 'jwt', portal: 'main', profile })
        if (ofProgram) t.not(told.toLowerCase(), ofProgram.toLowerCase(), JSON.stringify(row))
        if (told.startsWith('{')) t.not(JSON.parse(told).user?.id?.toLowerCase(), id.toLowerCase())
      }
    }),
    { numRuns: 3_000 },
  )
  t.ok(Math.min(...Object.values(seen)) > 300, JSON.stringify(seen))
})

t.test('a value that does not fit into a header is an error and never left out', async (t) => {
  const refused: [why: string, it: unknown, message: RegExp][] = [
    ['CR LF', 'a\r\nX-Admin: 1', /x-it would contain a control character/],
    ['CR LF beside what is encoded', 'ä\r\nX-Admin: 1', /x-it would contain a control character/],
    ['NUL', 'a\0', /control character/],
    ['DEL', 'a\x7f', /control character/],
    ['a tab', 'a\tb', /control character/],
    ['CR LF in a list', ['a', 'b\n'], /control character/],
    ['too long', '€'.repeat(3_000), /x-it would have \d+ characters, more than 8192/],
    ['half a character', 'ü\ud800', /x-it has no known value/],
  ]
  for (const [why, it, message] of refused)
    for (const encoding of ENCODINGS)
      t.throws(
        () => wireOf(it, encoding),
        { code: 'FWA_IDENTITY_UNSENDABLE', message },
        `${why}, ${encoding}`,
      )
  const onlyAsBytes: [why: string, it: string, message: RegExp][] = [
    ['a control character of Unicode', 'a\x9bb', /control character/],
    ['a space before', ' admin', /begin or end with a space/],
    ['a space behind', 'admin ', /begin or end with a space/],
  ]
  for (const [why, it, message] of onlyAsBytes) {
    t.throws(() => wireOf(it, 'utf-8'), { code: 'FWA_IDENTITY_UNSENDABLE', message }, why)
    t.equal(READERS.percent(wireOf(it, 'percent')), it, why)
    t.equal(READERS.rfc8187(wireOf(it, 'rfc8187')), it, why)
  }
  const unknown = profileOf({ _claim_names: { it: 'elsewhere' } })
  t.throws(() => sent([{ name: 'X-It', claim: 'it' }], unknown), { message: /no known value/ })
})
