import { generateKeyPairSync } from 'node:crypto'
import { createSigner } from 'fast-jwt'
import Fastify from 'fastify'
import { serve } from '../harness/serve.ts'

/** What a check answers for one of the visitors. */
const headers = {
  'cache-control': 'no-store',
  'content-type': 'text/plain; charset=utf-8',
  'x-forwarded-user': '5f0c2c1e-93a4-4f57-b0d8-000000a1b2c3',
  'x-forwarded-displayname': 'Ada Lovelace 000000',
  'x-authenticated-user': JSON.stringify({
    provider: 'corp',
    portal: 'main',
    user: {
      id: '5f0c2c1e-93a4-4f57-b0d8-000000a1b2c3',
      name: { full: 'Ada Lovelace 000000' },
      groups: ['staff', 'engineering'],
      email: { address: 'ada.000000@example.com', verified: true },
    },
  }),
}
/**
 * `signing` also signs an assertion for each request, as a check does for a session that it sees for the
 * first time. `redirecting` and `refusing` answer as a check without a valid session or token.
 */
const [, , kind] = process.argv
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const sign = createSigner({
  key: privateKey.export({ format: 'pem', type: 'pkcs8' }),
  algorithm: 'ES256',
  kid: 'bench',
})
const claims = {
  iss: 'https://auth.example.com/portals/main',
  aud: 'https://app.example.com',
  sub: '5f0c2c1e-93a4-4f57-b0d8-000000a1b2c3',
  exp: 2_000_000_000,
  method: 'session',
  provider: 'corp',
  name: 'Ada Lovelace 000000',
  email: 'ada.000000@example.com',
  email_verified: true,
  groups: ['staff', 'engineering'],
  sid: 'session-of-000000aaaaa',
}
/** What it answers when nobody is signed in. */
const signIn = {
  'cache-control': 'no-store',
  'content-type': 'text/plain; charset=utf-8',
  'referrer-policy': 'no-referrer',
  'set-cookie': [
    '__Host-gatehouse-hop.main.01234567=abcdefghijklmnopqrstuv; Max-Age=600; Path=/; HttpOnly; Secure; SameSite=Lax',
    '__Secure-gatehouse-binding.main.01234567=abcdefghijklmnopqrstuv; Max-Age=3600; Domain=example.com; Path=/portals/main; HttpOnly; Secure; SameSite=Lax',
  ],
  location: `https://auth.example.com/portals/main/signin?rd=https%3A%2F%2Fapp.example.com%2Freports%2F2026%3Fpage%3D2&hop=${'x'.repeat(250)}`,
}
/** And when the token of a program is refused. */
const refused = JSON.stringify({
  type: 'about:blank',
  title: 'Access token has a wrong signature',
  status: 401,
  detail: 'Access token has a wrong signature',
  code: 'AUTH_TOKEN_SIGNATURE',
})
const challenge =
  'Bearer realm="main", error="invalid_token", error_description="Access token has a wrong signature"'
/** And what verify answers for a session. */
const verified = {
  valid: true,
  portal: 'main',
  provider: 'corp',
  claims: {
    iss: 'https://auth.example.com/portals/main',
    aud: ['auth.example.com'],
    sub: '5f0c2c1e-93a4-4f57-b0d8-000000a1b2c3',
    iat: '2026-11-20T10:00:00Z',
    nbf: '2026-11-20T10:00:00Z',
    exp: '2026-11-20T18:00:00Z',
    name: 'Ada Lovelace 000000',
    email: 'ada.000000@example.com',
    email_verified: true,
    groups: ['staff', 'engineering'],
  },
}

const app = Fastify()
app.get('/portals/main', (_request, reply) => {
  if (kind === 'redirecting') return reply.code(302).headers(signIn).send('')
  if (kind === 'refusing')
    return reply
      .code(401)
      .headers({ 'cache-control': 'no-store', 'www-authenticate': challenge })
      .type('application/problem+json')
      .send(refused)
  reply.headers(headers)
  if (kind === 'signing') reply.header('x-gatehouse-assertion', sign(claims))
  return reply.send('OK\n')
})
app.get('/api/portals/main/verify', (_request, reply) =>
  reply.header('cache-control', 'no-store').send(verified),
)
await serve(app)
