import Fastify from 'fastify'
import { readCookie } from '../../services/forward-auth/src/web/cookies.ts'
import { serve } from '../harness/serve.ts'
import { visitorClaims } from '../harness/visitors.ts'

/**
 * The least that any check does: it finds what it made of the session before, and answers it. No
 * forwarded request is read, no proxy is known, nothing is refused.
 */
interface Known {
  readonly expiresAt: number
  readonly headers: Readonly<Record<string, string>>
}
const known = new Map<string, Known>()

const app = Fastify()
app.get('/portals/main', ({ headers }, reply) => {
  const token = readCookie(headers.cookie ?? '', '__Host-gatehouse-app.main') ?? ''
  let session = known.get(token)
  if (!session) {
    session = read(token)
    known.set(Buffer.from(token).toString(), session)
  }
  if (session.expiresAt <= Date.now()) throw new Error('expired')
  reply.headers(session.headers).send('OK\n')
})
await serve(app)

function read(token: string): Known {
  const [, payload = ''] = token.split('.')
  const { exp, sid } = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const claims = visitorClaims(Number(/\d{6}/.exec(sid)?.[0]))
  const { sub: id, name: full, groups, email: address, email_verified: verified } = claims
  return {
    expiresAt: exp * 1_000,
    headers: {
      'cache-control': 'no-store',
      'content-type': 'text/plain; charset=utf-8',
      'x-forwarded-user': id,
      'x-forwarded-displayname': full,
      'x-authenticated-user': JSON.stringify({
        provider: 'corp',
        portal: 'main',
        user: { id, name: { full }, groups, email: { address, verified } },
      }),
    },
  }
}
