import t from 'tap'
import { Compile } from 'typebox/compile'
import { fromClaims, ProfileJsonSchema, toJson } from '../../src/index.ts'
import { ADA } from '../ada.ts'

t.test('profile.json has the shared fields and follows its schema', async (t) => {
  const answers: [why: string, claims: Record<string, unknown>, json: object][] = [
    [
      'the sample',
      { ...ADA, roles: ['dev'], department: 'x' },
      {
        authenticated: true,
        provider: 'corp',
        id: '5f0c2c1e',
        name: { full: 'Ada Lovelace', first: 'Ada', last: 'Lovelace' },
        email: { address: 'ada@example.com', verified: true },
        picture: 'https://example.com/ada.png',
        groups: ['admin', 'ops'],
      },
    ],
    [
      'what is not shared has no member',
      { sub: '1', groups: [], name: null },
      { authenticated: true, provider: 'corp', id: '1' },
    ],
  ]
  const schema = Compile(ProfileJsonSchema)
  for (const [why, claims, json] of answers) {
    const answer = toJson(fromClaims('corp', claims))
    t.equal(JSON.stringify(answer), JSON.stringify(json), why)
    t.ok(schema.Check(answer), 'fits the schema')
  }
})
