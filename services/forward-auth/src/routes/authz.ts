import { envoyDialect, forwardDialect, nginxDialect } from '../check/dialects.ts'
import { checkRoute } from './check.ts'

const BY_QUERY =
  'The query may hold what else a person has to meet: `policy`, the name of one of the portal’s policies, or `if`, a condition.'
const BY_PATH =
  'The path names what else a person has to meet, as Envoy appends the query of its client.'

/** The check in the dialect of each proxy. */
export const CHECK_ROUTES = [
  checkRoute({
    dialect: forwardDialect,
    path: '/',
    summary: 'Check for Traefik and Caddy',
    description: BY_QUERY,
  }),
  checkRoute({
    dialect: nginxDialect,
    path: '/authz/nginx',
    summary: 'Check for nginx',
    description: BY_QUERY,
  }),
  checkRoute({
    dialect: forwardDialect,
    path: '/authz/haproxy',
    summary: 'Check for HAProxy',
    description: BY_QUERY,
  }),
  checkRoute({
    dialect: envoyDialect,
    path: '/authz/envoy/policy/:policy/*',
    summary: 'Check for Envoy, by a policy of the portal or `any`',
    description: BY_PATH,
  }),
  // A slash at the end is not looked at, so that no wildcard matches the first page of an app.
  checkRoute({
    dialect: envoyDialect,
    path: '/authz/envoy/policy/:policy',
    summary: 'Check for Envoy, of the page `/`',
    description: BY_PATH,
  }),
]
