import { caddy } from './caddy.ts'
import { envoy } from './envoy.ts'
import { haproxy } from './haproxy.ts'
import { nginx } from './nginx.ts'
import { traefik } from './traefik.ts'

export const PROXIES = { nginx, caddy, traefik, envoy, haproxy } as const

export type ProxyName = keyof typeof PROXIES
export const PROXY_NAMES = Object.keys(PROXIES) as readonly ProxyName[]
