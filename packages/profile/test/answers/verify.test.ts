import t from 'tap'
import { Compile } from 'typebox/compile'
import { fromClaims, VerifyResultSchema, verifyResult } from '../../src/index.ts'
import { ADA } from '../ada.ts'

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

const OTHERS = {
  roles: ['dev', 'ops'],
  middle_name: 'King',
  nickname: 'Ada',
  preferred_username: 'ada',
  locale: 'en-GB',
  zoneinfo: 'Europe/London',
}

t.test('verify answers with the claims of the token and follows its schema', async (t) => {
  const { sub, groups, picture, name, given_name, family_name, email, email_verified } = ADA
  const person = { sub, groups, picture, name, given_name, family_name, email, email_verified }
  const answers: [
    why: string,
    claims: Record<string, unknown>,
    audience: string | string[],
    claims: object,
  ][] = [
    [
      'all that the token holds of the person, and nothing internal',
      {
        ...{ ...ADA, ...OTHERS, level: 3, 'https://acme.com/teams': [{ id: 1, name: 'engines' }] },
        ...{ sid: 'x', nonce: 'x', at_hash: 'x', _x: 1, _claim_names: { secret: 'src1' } },
      },
      'a',
      { ...person, ...OTHERS, level: 3, 'https://acme.com/teams': [{ id: 1, name: 'engines' }] },
    ],
    [
      'only texts where there are texts',
      {
        sub: '1',
        locale: { a: 1 },
        nickname: 1,
        zoneinfo: ['x'],
        preferred_username: true,
        name: 1,
      },
      'a',
      { sub: '1' },
    ],
    [
      'no claim that was too large to keep',
      { sub: '1', big: 'x'.repeat(5_000) },
      'a',
      { sub: '1' },
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
