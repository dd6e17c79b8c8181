import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { buildApp } from './app.ts'

/** The OpenAPI 3.1 document of the service, of an instance without portals; for tests also with the pages for people. */
export async function describeApi({ hasPages = false } = {}): Promise<object> {
  const path = await mkdtemp(join(tmpdir(), 'forward-auth-'))
  const log = createLogger({ level: 'silent', format: 'json', name: 'forward-auth' })
  const app = await buildApp(
    {
      server: { host: '127.0.0.1', port: 0, basePath: '' },
      metrics: { enabled: false, host: '127.0.0.1', port: 0 },
      log: { level: 'info', format: 'json', checks: 'refused' },
      session: { lifetime: 1 },
      storage: { path },
      audit: { retention: 86_400_000 },
      events: { receivers: [] },
      domains: [],
      portals: [],
    },
    { log },
  )
  try {
    await app.ready()
    return hasPages ? app.swagger() : (await app.inject('/openapi.json')).json()
  } finally {
    await app.close()
    await rm(path, { recursive: true })
  }
}
