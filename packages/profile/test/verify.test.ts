import t from 'tap'
import { Compile } from 'typebox/compile'
import { fromClaims, VerifyResultSchema, verifyResult } from '../src/index.ts'
import { ADA } from './ada.ts'

const token = {
  iss: 'https://auth.example.com/portals/main',
  aud: 'example.com',
  iat: Date.UTC(2026, 10, 20, 10) / 1_000,
  nbf: Date.UTC(2026, 10, 20, 10) / 1_000,
  exp: Date.UTC(2026, 10, 20, 18, 0, 1) / 1_000,
}
const times = {
  iat: '2026-11-20T10:00:00Z',
  nbf: '2026-11-20T10:00:00Z',
  exp: '2026-11-20T18:00:01Z',
}

t.test('verify', async (t) => {
  const { sub, groups, picture, name, given_name, family_name, email, email_verified } = ADA
  const person = { sub, groups, picture, name, given_name, family_name, email, email_verified }
  const answers: [
    why: string,
    claims: Record<string, unknown>,
    audience: string | string[],
    claims: object,
  ][] = [
    [
      'all that is shared, and nothing internal',
      { ...ADA, roles: ['dev'], sid: 'x', _x: 1 },
      'a',
      person,
    ],
    ['nothing shared', { sub: '1' }, ['a'], { sub: '1' }],
    ['several audiences', { sub: '1' }, ['a', 'b'], { sub: '1' }],
  ]
  const schema = Compile(VerifyResultSchema)
  for (const [why, sent, aud, claims] of answers) {
    const answer = verifyResult('main', { ...token, aud }, fromClaims('corp', sent))
    t.strictSame(
      answer,
      {
        valid: true,
        portal: 'main',
        provider: 'corp',
        claims: { iss: token.iss, aud: [aud].flat(), ...times, ...claims },
      },
      why,
    )
    t.ok(schema.Check(answer), 'fits the schema')
  }
})
