const fastifyAuth = require('@fastify/auth')
const { default: auth } = require('@gatehouse/auth-core')
const { createFetch, NetError } = require('@gatehouse/net')
const { compileCondition } = require('@gatehouse/profile')
const { fromClaims } = require('@gatehouse/profile/claims')
const Fastify = require('fastify')

const { ISSUER, PORTAL, API_KEY } = process.env
const app = Fastify()
app.register(fastifyAuth)
app.register(auth, {
  psk: { keys: [{ name: 'backup', key: API_KEY, scopes: ['reports:read'] }] },
  jwt: { issuerUrl: ISSUER, audience: 'https://api.example' },
  assertion: { issuerUrl: PORTAL, audience: 'https://app.example.com' },
})

app.after(() => {
  const staff = compileCondition('"staff" in claims.groups')
  app.get(
    '/jobs',
    { onRequest: app.requireCaller({ scopes: ['reports:read'] }) },
    ({ caller }) => ({
      method: caller.method,
      subject: caller.subject,
    }),
  )
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
      const { body } = await fetchBounded(`${ISSUER}/.well-known/openid-configuration`, {
        maxBytes,
      })
      return { issuer: JSON.parse(body.toString()).issuer }
    } catch (error) {
      return { code: error instanceof NetError ? error.code : error }
    }
  })
})

app.listen({ host: '127.0.0.1', port: 0 }).then(() => console.log(app.server.address().port))
