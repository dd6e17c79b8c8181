import type { ProxyName as ListedName } from '@gatehouse/service-kit/proxies'
import { caddy } from './caddy.ts'
import { envoy, envoyGrpc } from './envoy.ts'
import { haproxy } from './haproxy.ts'
import type { ProxyUnderTest, ProxyVariant } from './kit.ts'
import { nginx } from './nginx.ts'
import { traefik } from './traefik.ts'

export { readExample, type Situation, type Surroundings } from './kit.ts'

/** What the tests know of each proxy. */
export const TESTED: Readonly<Record<ListedName, ProxyUnderTest>> = {
  nginx,
  caddy,
  haproxy,
  traefik,
  envoy,
}

export type ProxyName = ListedName | 'envoy-grpc'

/** All that can run; see {@link missingProgram}. */
export const PROXIES: Readonly<Record<ProxyName, ProxyVariant>> = {
  ...TESTED,
  'envoy-grpc': envoyGrpc,
}

/** Why a proxy cannot run here; false if it can. */
export function missingProgram(proxy: ProxyName): string | false {
  const { variable } = PROXIES[proxy]
  if (variable === undefined || process.env[variable]) return false
  return `${variable} does not name the program of ${proxy}`
}
