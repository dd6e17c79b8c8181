import { type Claims, fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import t from 'tap'
import { type ClaimPaths, lacksClaims, mergeClaims, profileAgain } from '../src/claims.ts'

/** Groups and roles that a session has, or why they cannot be read. */
function readAs(paths: ClaimPaths, idToken: Claims, userInfo: Claims = {}) {
  const { claims } = fromClaims('corp', { sub: 'ada', ...mergeClaims(idToken, userInfo, paths) })
  return { groups: readIn(claims, 'groups'), roles: readIn(claims, 'roles') }
}

function readIn(claims: Claims, name: string): unknown {
  try {
    return claims[name]
  } catch (error) {
    return (error as { code?: string }).code
  }
}

const KEYCLOAK = {
  realm_access: { roles: ['offline_access', 'admin'] },
  resource_access: { 'my.app': { roles: ['editor'] }, account: { roles: ['view-profile'] } },
}
const DN = 'cn=staff,ou=groups,dc=example,dc=com'

t.test('reads groups and roles where a provider puts them', async (t) => {
  const table: [what: string, paths: ClaimPaths, idToken: Claims, expected: object][] = [
    [
      'Keycloak: roles of the realm',
      { rolesClaim: 'realm_access.roles' },
      KEYCLOAK,
      { roles: ['offline_access', 'admin'] },
    ],
    [
      'Keycloak: roles of a client whose name has a dot, as groups',
      { groupsClaim: 'resource_access.my.app.roles', rolesClaim: 'realm_access.roles' },
      KEYCLOAK,
      { groups: ['editor'], roles: ['offline_access', 'admin'] },
    ],
    [
      'Cognito',
      { groupsClaim: 'cognito:groups', rolesClaim: 'cognito:roles' },
      { 'cognito:groups': ['staff'], 'cognito:roles': ['arn:aws:iam::1:role/a'] },
      { groups: ['staff'], roles: ['arn:aws:iam::1:role/a'] },
    ],
    [
      'ZITADEL: an object for each role',
      { rolesClaim: 'urn:zitadel:iam:org:project:roles' },
      { 'urn:zitadel:iam:org:project:roles': { admin: { 7: 'a.example' }, staff: {} } },
      { roles: ['admin', 'staff'] },
    ],
    [
      'roles that an object says yes or no to',
      { rolesClaim: 'roles' },
      { roles: { admin: false } },
      { roles: 'PROFILE_CLAIM_UNKNOWN' },
    ],
    ['LDAP', { groupsClaim: 'memberOf' }, { memberOf: [DN] }, { groups: [DN] }],
    ['LDAP, one group', { groupsClaim: 'memberOf' }, { memberOf: DN }, { groups: [DN] }],
    [
      'a claim whose name is a URL',
      { groupsClaim: 'https://example.com/groups' },
      { 'https://example.com/groups': ['staff'] },
      { groups: ['staff'] },
    ],
    [
      'inside a claim whose name is a URL',
      { groupsClaim: 'https://example.com/app.groups' },
      { 'https://example.com/app': { groups: ['staff'] } },
      { groups: ['staff'] },
    ],
    [
      'the longest name first, and then shorter ones',
      { groupsClaim: 'a.b.c' },
      { 'a.b': { d: ['no'] }, a: { 'b.c': ['yes'] } },
      { groups: ['yes'] },
    ],
    [
      'the whole name before any path',
      { groupsClaim: 'a.b' },
      { 'a.b': ['yes'], a: { b: ['no'] } },
      { groups: ['yes'] },
    ],
    [
      'both from one claim',
      { groupsClaim: 'g', rolesClaim: 'g' },
      { g: ['x'] },
      { groups: ['x'], roles: ['x'] },
    ],
    [
      'only there, if it is configured',
      { groupsClaim: 'memberOf', rolesClaim: 'r' },
      { groups: ['a'], group: 'b', roles: ['c'], role: 'd' },
      { groups: undefined, roles: undefined },
    ],
    ['not in a list', { groupsClaim: 'orgs.0' }, { orgs: ['a'] }, { groups: undefined }],
    [
      'not in what every object has',
      { groupsClaim: 'constructor.name' },
      {},
      { groups: undefined },
    ],
    [
      'an object is not known, rather than empty',
      { groupsClaim: 'resource_access' },
      KEYCLOAK,
      { groups: 'PROFILE_CLAIM_UNKNOWN' },
    ],
    [
      'what the provider has elsewhere is not known, rather than empty',
      { groupsClaim: 'memberOf', rolesClaim: 'app.roles' },
      { _claim_names: { memberOf: 'src1', app: 'src1' } },
      { groups: 'PROFILE_CLAIM_UNKNOWN', roles: 'PROFILE_CLAIM_UNKNOWN' },
    ],
  ]
  for (const [what, paths, idToken, expected] of table)
    t.match(readAs(paths, idToken), expected, what)
})

t.test('a list that becomes groups or roles is in the session once', async (t) => {
  const paths = { groupsClaim: 'memberOf', rolesClaim: 'realm_access.roles' }
  const sent = { memberOf: [DN], realm_access: { roles: ['admin'], verify_caller: true } }
  t.same(mergeClaims(sent, {}, paths), {
    group: undefined,
    groups: [DN],
    role: undefined,
    roles: ['admin'],
    realm_access: { verify_caller: true },
  })
  t.same(sent.memberOf, [DN], 'what was sent is left alone')
  const text = { sub: 'ada', email: 'a@example.com' }
  t.match(mergeClaims(text, {}, { groupsClaim: 'email' }), text, 'a text stays where it was')
})

t.test('UserInfo is asked for what the ID token lacks', async (t) => {
  const table: [paths: ClaimPaths, idToken: Claims, expected: boolean, ...scopes: string[]][] = [
    [{}, { groups: [] }, false],
    [{}, {}, true],
    [{}, { groups: null }, true],
    [{ groupsClaim: 'memberOf' }, { groups: ['a'] }, true],
    [{ groupsClaim: 'memberOf' }, { memberOf: [] }, false],
    [{ rolesClaim: 'a.b' }, { groups: ['a'] }, true],
    [{ rolesClaim: 'a.b' }, { groups: ['a'], a: { b: ['c'] } }, false],
    [{}, { groups: [] }, true, 'email'],
    [{}, { groups: [], email: 'a@b.example' }, true, 'email'],
    [{}, { groups: [], email: 'a@b.example', email_verified: false }, false, 'email'],
    [{}, { groups: [] }, true, 'profile'],
    [{}, { groups: [], name: 'Ada' }, false, 'profile'],
    [{}, { groups: [], name: 'Ada' }, true, 'profile', 'email'],
  ]
  for (const [paths, idToken, expected, ...scopes] of table)
    t.equal(lacksClaims(idToken, paths, scopes), expected, JSON.stringify([paths, idToken, scopes]))

  const paths = { groupsClaim: 'resource_access.app.roles' }
  const idToken = { resource_access: { account: { roles: ['view-profile'] } } }
  const userInfo = { resource_access: { app: { roles: ['editor'] } } }
  t.match(readAs(paths, idToken, userInfo), { groups: ['editor'] })
  t.match(readAs(paths, userInfo, { resource_access: { app: { roles: ['admin'] } } }), {
    groups: ['editor'],
  })
})

t.test('how and when a person signed in is for the ID token to say', async (t) => {
  const userInfo = { acr: 'mfa', amr: ['otp'], auth_time: 9_999_999_999, name: 'Ada' }
  t.same(mergeClaims({}, userInfo, {}), { name: 'Ada' })
  const idToken = { acr: '0', amr: ['pwd'], auth_time: 1 }
  t.same(mergeClaims(idToken, userInfo, {}), { ...idToken, name: 'Ada' })
})

t.test('finds a list at any path of names', async (t) => {
  const name = fc.string({ minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), fc.object(), (names, noise) => {
      const claims = names.reduceRight<unknown>((inner, key) => ({ [key]: inner }), ['staff'])
      const groupsClaim = names.join('.')
      const { groups } = mergeClaims(claims as Claims, {}, { groupsClaim })
      t.same(groups, ['staff'])
      t.doesNotThrow(() => mergeClaims(noise as Claims, noise as Claims, { groupsClaim }))
    }),
    { numRuns: 300 },
  )
})

t.test('what a person has who is read again', (t) => {
  const before = {
    sub: 'ada',
    groups: ['a'],
    department: 'x',
    acr: 'mfa',
    amr: ['otp'],
    auth_time: 5,
  }
  const UNKNOWN = 'PROFILE_CLAIM_UNKNOWN'
  const table: [what: string, now: Claims, expected: Readonly<Record<string, unknown>>][] = [
    ['other groups', { groups: ['b'] }, { groups: ['b'], department: UNKNOWN }],
    ['no groups', { groups: [], department: 'x' }, { groups: [], department: 'x' }],
    ['groups under another name', { group: 'b' }, { groups: ['b'] }],
    ['a claim of null', { department: null }, { department: UNKNOWN }],
    ['a new claim', { office: 'y' }, { office: 'y' }],
    ['groups elsewhere', { _claim_names: { groups: 's' } }, { groups: UNKNOWN }],
    ['the same authentication', { auth_time: 5 }, { acr: 'mfa', amr: ['otp'], auth_time: 5 }],
    ['no word of it', {}, { acr: 'mfa', amr: ['otp'], auth_time: 5 }],
    ['an older one', { auth_time: 4 }, { acr: UNKNOWN, amr: UNKNOWN, auth_time: 4 }],
    ['a newer one', { auth_time: 6, acr: 'pwd' }, { acr: 'pwd', amr: UNKNOWN, auth_time: 6 }],
    ['another class', { acr: 'pwd' }, { acr: 'pwd', amr: ['otp'], auth_time: 5 }],
  ]
  for (const [what, now, expected] of table) {
    const { claims } = profileAgain('corp', { sub: 'ada', ...now }, fromClaims('corp', before))
    for (const [name, value] of Object.entries(expected))
      t.strictSame(readIn(claims, name), value, `${what}: ${name}`)
  }
  t.end()
})

t.test('an address is verified by the one who names it', (t) => {
  const [address, other] = ['ada@example.com', 'other@example.com']
  const cases: [what: string, idToken: Claims, userInfo: Claims, expected: Claims][] = [
    [
      'UserInfo alone has it',
      { email_verified: true },
      { email: address, email_verified: false },
      { email: address, email_verified: false },
    ],
    [
      'the two have different ones',
      { email: address },
      { email: other, email_verified: true },
      { email: address },
    ],
    [
      'both have it',
      { email: address },
      { email: address, email_verified: true },
      { email: address, email_verified: true },
    ],
  ]
  for (const [what, idToken, userInfo, expected] of cases)
    t.strictSame(mergeClaims(idToken, userInfo, {}), expected, what)
  t.end()
})

t.test('no claim is a member of every object', (t) => {
  const claims = { sub: '1' }
  t.strictSame(mergeClaims(claims, {}, { groupsClaim: 'constructor' }).groups, undefined)
  t.strictSame(mergeClaims(claims, {}, { rolesClaim: 'constructor.name' }).roles, undefined)
  t.end()
})
