import fc from 'fast-check'

const CLAIM_NAMES = [
  ...['sub', 'id', 'name', 'given_name', 'family_name', 'nickname', 'middle_name'],
  ...['preferred_username', 'email', 'email_verified', 'verified_email', 'picture'],
  ...['group', 'groups', 'role', 'roles', 'department', '__proto__', 'constructor', 'toString'],
  ...['iss', 'aud', 'exp', '_claim_names', '_claim_sources'],
]
const NASTY = ['\n', '\r\n', '\0', '\u2028', '\u202e', '\ud800', '  - root', 'ID: root', ' ', 'é']

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.array(fc.constantFrom(...NASTY, 'a', '@', 'b.c'), { maxLength: 8 }).map((s) => s.join('')),
  fc.constantFrom('ada@example.com', 'https://example.com/a.png', 'x'.repeat(5_000)),
)
const value = fc.oneof(
  text,
  fc.array(text, { maxLength: 5 }),
  fc.boolean(),
  fc.dictionary(fc.constantFrom(...CLAIM_NAMES), text),
  fc.jsonValue({ maxDepth: 6 }),
)

/** Claims as a provider without any manners may send them, as `JSON.parse` gives them. */
export const anyClaims: fc.Arbitrary<Record<string, unknown>> = fc
  .array(fc.tuple(fc.constantFrom(...CLAIM_NAMES), value), { maxLength: 12 })
  .map((entries) => JSON.parse(JSON.stringify(Object.fromEntries(entries))))

/** The same with a usable `sub`. */
export const identifiedClaims = anyClaims.map((claims) => ({ ...claims, sub: '5f0c2c1e' }))
