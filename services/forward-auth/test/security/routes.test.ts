import t from 'tap'
import { portalOf, startApp, yamlOf } from '../app.ts'

/** Everything that is served of a portal, by the method that is described. */
const PORTAL = [
  'GET /',
  'GET /.well-known/jwks.json',
  'GET /.well-known/openid-configuration',
  'GET /account',
  'GET /authz/envoy/policy/{policy}',
  'GET /authz/envoy/policy/{policy}/{*}',
  'GET /authz/haproxy',
  'GET /authz/nginx',
  'GET /logout',
  'GET /oauth2/callback',
  'GET /profile',
  'GET /profile.json',
  'GET /providers/{provider}',
  'GET /providers/{provider}/callback',
  'GET /return/{login}',
  'GET /sessions',
  'GET /signin',
  'POST /account/end',
  'POST /account/end-all',
  'POST /account/end-others',
  'POST /logout',
  'POST /providers/{provider}/backchannel-logout',
  'POST /sessions/end',
]
const OWN = [
  'GET /.well-known/oauth-protected-resource',
  'GET /api/portals/{portal}/verify',
  'GET /healthz',
  'GET /readyz',
  'POST /api/portals/{portal}/sessions/end',
]

t.test('no route issues codes or tokens to clients', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  const { paths } = (await app.inject('/openapi.json')).json()
  const served = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  const ofPortal = PORTAL.map((route) =>
    route.replace(' ', ' /portals/{portal}').replace(/\/$/, ''),
  )
  t.strictSame(served.sort(), [...OWN, ...ofPortal].sort())
  for (const path of ['oauth2/token', 'oauth2/authorize', 'token', 'userinfo'])
    for (const method of ['GET', 'POST'] as const)
      t.equal((await app.inject({ method, url: `/portals/main/${path}` })).statusCode, 404, path)
})
