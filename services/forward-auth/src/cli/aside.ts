import { userInfo } from 'node:os'
import { attempt } from '@gatehouse/net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import { type AppDeps, buildApp } from '../app.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'

/** The service without a listener, on the same store and keys as the one that runs. */
export function startAside(
  config: ForwardAuthConfig,
  deps: Pick<AppDeps, 'clock'> = {},
): Promise<FastifyInstance> {
  const { host, port, basePath } = config.server
  const server = { host, port, basePath, trustedProxies: ['127.0.0.1'] }
  const log = createLogger({ name: 'aside', level: 'silent', format: 'json' })
  return buildApp({ ...config, server }, { ...deps, log })
}

/** The user of this machine; by number where a container gives it no name. */
export function operator(): string {
  return attempt(() => userInfo().username) ?? `uid ${process.getuid?.()}`
}
