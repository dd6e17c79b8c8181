import { createLogger } from '@gatehouse/service-kit'
import { buildApp } from './app.ts'
import type { Service } from './service.ts'

/** The OpenAPI 3.1 document of the service, without one that runs. */
export async function describeApi(): Promise<object> {
  const log = createLogger({ level: 'silent', format: 'json', name: 'forward-auth' })
  // Routes reach for the service only when they are called.
  const service = { drain() {} } as Service
  const app = await buildApp('', { service, log })
  try {
    return (await app.inject('/openapi.json')).json()
  } finally {
    await app.close()
  }
}
