import t from 'tap'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { CHECK_PATHS } from '../proxies/routes.ts'

/** Everything that is served of a portal, by the method that is described. */
const PORTAL = [
  'DELETE /mcp-proxy/{rest}',
  ...CHECK_PATHS.map(
    (path) => `GET ${path.replace(':policy', '{policy}').replace('*', '{rest}') || '/'}`,
  ),
  'GET /.well-known/jwks.json',
  'GET /.well-known/oauth-authorization-server',
  'GET /.well-known/openid-configuration',
  'GET /account',
  'GET /account/calls',
  'GET /account/calls/{id}',
  'GET /authorize',
  'GET /authorize/granted',
  'GET /logout',
  'GET /mcp-proxy/{rest}',
  'GET /oauth2/callback',
  'GET /profile',
  'GET /profile.json',
  'GET /providers/{provider}',
  'GET /providers/{provider}/callback',
  'GET /return/{login}',
  'GET /sessions',
  'GET /signin',
  'POST /account/calls/{id}',
  'POST /account/end',
  'POST /account/end-all',
  'POST /account/end-others',
  'POST /authorize',
  'POST /logout',
  'POST /mcp-proxy/{rest}',
  'POST /providers/{provider}/backchannel-logout',
  'POST /register',
  'POST /revoke',
  'POST /sessions/end',
  'POST /token',
]
const OWN = [
  'GET /.well-known/oauth-authorization-server/portals/{portal}',
  'GET /.well-known/oauth-protected-resource',
  'GET /api/portals/{portal}/verify',
  'GET /healthz',
  'GET /readyz',
  'POST /api/portals/{portal}/sessions/end',
]

t.test(
  'codes and tokens are for the resources of a portal alone, and nobody gets ID tokens',
  async (t) => {
    const { app } = await startApp(t, yamlOf(portalOf('main')))
    await app.ready()
    const paths = Object(app.swagger().paths)
    const served = Object.entries<object>(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    const ofPortal = PORTAL.map((route) =>
      route.replace(' ', ' /portals/{portal}').replace(/\/$/, ''),
    )
    t.strictSame(served.sort(), [...OWN, ...ofPortal].sort())
    for (const path of ['oauth2/token', 'oauth2/authorize', 'userinfo', 'introspect'])
      for (const method of ['GET', 'POST'] as const)
        t.equal((await app.inject({ method, url: `/portals/main/${path}` })).statusCode, 404, path)

    // This portal has no resource of its own.
    const table: readonly [method: 'GET' | 'POST', path: string, status: number][] = [
      ['GET', '/.well-known/oauth-authorization-server/portals/main', 404],
      [
        'GET',
        '/portals/main/authorize?client_id=https://a.test/c&redirect_uri=https://a.test/',
        400,
      ],
      ['POST', '/portals/main/token', 400],
      ['POST', '/portals/main/register', 404],
      ['GET', '/portals/main/token', 405],
    ]
    for (const [method, url, status] of table) {
      const headers = {
        host: 'auth.example.com',
        'content-type': 'application/x-www-form-urlencoded',
      }
      const sent =
        method === 'POST' ? { headers, payload: '' } : { headers: { host: headers.host } }
      t.equal((await app.inject({ method, url, ...sent })).statusCode, status, url)
    }
  },
)
