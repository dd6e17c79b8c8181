import { envoyDialect, forwardDialect, nginxDialect } from '../check/dialects.ts'
import { checkRoute } from './check.ts'

/** The check in the dialect of each proxy. */
export const CHECK_ROUTES = [
  checkRoute({ dialect: forwardDialect, path: '/', summary: 'Check for Traefik and Caddy' }),
  checkRoute({ dialect: nginxDialect, path: '/authz/nginx', summary: 'Check for nginx' }),
  checkRoute({ dialect: forwardDialect, path: '/authz/haproxy', summary: 'Check for HAProxy' }),
  checkRoute({
    dialect: envoyDialect,
    path: '/authz/envoy/policy/:policy/*',
    summary: 'Check for Envoy, by a policy of the portal or `any`',
  }),
  // A slash at the end is not looked at, so that no wildcard matches the first page of an app.
  checkRoute({
    dialect: envoyDialect,
    path: '/authz/envoy/policy/:policy',
    summary: 'Check for Envoy, of the page `/`',
  }),
]
