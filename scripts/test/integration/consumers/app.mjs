import fastifyAuth from '@fastify/auth'
import auth from '@gatehouse/auth-core'
import { createFetch, NetError } from '@gatehouse/net'
import { compileCondition } from '@gatehouse/profile'
import { fromClaims } from '@gatehouse/profile/claims'
import Fastify from 'fastify'

const { ISSUER, PORTAL, API_KEY } = process.env
const app = Fastify()
await app.register(fastifyAuth)
await app.register(auth, {
  psk: { keys: [{ name: 'backup', key: API_KEY, scopes: ['reports:read'] }] },
  jwt: { issuerUrl: ISSUER, audience: 'https://api.example' },
  assertion: { issuerUrl: PORTAL, audience: 'https://app.example.com' },
})

const staff = compileCondition('"staff" in claims.groups')
app.get('/jobs', { onRequest: app.requireCaller({ scopes: ['reports:read'] }) }, ({ caller }) => ({
  method: caller.method,
  subject: caller.subject,
}))
app.delete(
  '/jobs',
  { onRequest: app.requireCaller({ scopes: ['reports:write'] }) },
  () => 'deleted',
)
app.get('/', { onRequest: app.auth([app.requirePerson(), app.requireCaller()]) }, (request) => ({
  name: request.optionalPerson?.name?.full ?? null,
  staff: request.optionalPerson ? staff.holds(request.optionalPerson) : null,
}))
app.get('/profile', ({ query }) => {
  const profile = fromClaims('corp', query)
  return { id: profile.id, email: profile.email?.address, staff: staff.holds(profile) }
})

const fetchBounded = createFetch({ timeoutMs: 10_000 })
app.addHook('onClose', () => fetchBounded.close())
app.get('/issuer', async ({ query }) => {
  try {
    const maxBytes = Number(query.max)
    const { body } = await fetchBounded(`${ISSUER}/.well-known/openid-configuration`, { maxBytes })
    return { issuer: JSON.parse(body.toString()).issuer }
  } catch (error) {
    return { code: error instanceof NetError ? error.code : error }
  }
})

await app.listen({ host: '127.0.0.1', port: 0 })
console.log(app.server.address().port)
