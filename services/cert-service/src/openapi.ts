import { createLogger, systemClock } from '@gatehouse/service-kit'
import { buildApp } from './app.ts'
import type { Service } from './service.ts'

/** The OpenAPI 3.1 document of the service, without one that runs. */
export async function describeApi(): Promise<object> {
  const log = createLogger({ level: 'silent', format: 'json', name: 'cert-service' })
  // Routes reach for the service only when they are called.
  const service = { clock: systemClock, drain() {} } as Service
  const auth = { psk: { key: 'it-guards-nothing-here' } }
  const app = await buildApp({ auth }, { service, log })
  try {
    return (await app.inject('/openapi.json')).json()
  } finally {
    await app.close()
  }
}
