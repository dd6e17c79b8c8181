import { caddy } from './caddy.ts'
import { envoy } from './envoy.ts'
import { haproxy } from './haproxy.ts'
import { nginx } from './nginx.ts'
import type { Dialect, ReverseProxy } from './proxy.ts'
import { traefik } from './traefik.ts'

export { type Dialect, forwardDialect, type RequestSource, type ReverseProxy } from './proxy.ts'

const ALL = { nginx, caddy, traefik, envoy, haproxy } as const

export type ProxyName = keyof typeof ALL
/** A mistake that a line of some proxy cures. */
export type CurableMistake = {
  [Name in ProxyName]: keyof (typeof ALL)[Name]['remedies']
}[ProxyName]

export const PROXIES: Readonly<Record<ProxyName, ReverseProxy>> = ALL
export const PROXY_NAMES = Object.keys(ALL) as readonly ProxyName[]
/** The dialects of proxies: some share one, and one has two. */
export const DIALECTS: readonly Dialect[] = [
  ...new Set(Object.values(PROXIES).flatMap(({ dialects }) => dialects)),
]
