import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { AppDeps } from '../../src/app.ts'
import { startApp, type TestApp } from '../app.ts'

/** The whole service of a configuration, listening on loopback. */
export async function startGatehouse(
  t: Test,
  yaml: string,
  change?: (app: FastifyInstance) => void,
  deps?: Partial<AppDeps>,
): Promise<TestApp & { readonly port: number }> {
  const gatehouse = await startApp(t, yaml, change, deps)
  await gatehouse.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = gatehouse.app.server.address() as AddressInfo
  return { ...gatehouse, port }
}
