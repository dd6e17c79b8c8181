import { createLogger } from '@gatehouse/service-kit/telemetry'
import { buildApi } from './app.ts'

export async function describeApi(): Promise<object> {
  const log = createLogger({ level: 'silent', format: 'json', name: 'cert-service' })
  const auth = { psk: { key: 'it-guards-nothing-here' } }
  const app = await buildApi({ auth, rules: [] }, { log })
  try {
    return (await app.inject('/openapi.json')).json()
  } finally {
    await app.close()
  }
}
