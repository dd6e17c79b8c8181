import { toPem } from '@gatehouse/pki'
import { createLogger, createMetrics } from '@gatehouse/service-kit/telemetry'
import { buildApp } from '../../services/cert-service/src/app.ts'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { serve } from '../harness/serve.ts'
import { API_KEY, certServiceFiles } from '../harness/service-files.ts'
import { createNoStore } from './no-store.ts'

const options = process.argv.slice(2)
const storage = options.find((option) => option.startsWith('{'))
const files = certServiceFiles(options.includes('tls') ? 'own' : 'off', storage)
process.once('exit', files.remove)

const { value: config } = await loadCertConfig(files.config, {})
const log = createLogger({ ...config.log, name: 'cert-service' })
const metrics = createMetrics({ service: 'cert-service', version: 'bench' })
const openStore = async () => createNoStore()
const app = await buildApp(config, {
  log,
  metrics,
  ...(options.includes('no-store') && { openStore }),
})
// A GET never issues a certificate.
for (const option of options) {
  const [, domain] = option.split('holds=')
  if (domain === undefined) continue
  const headers = { authorization: `APIKey ${API_KEY}` }
  await app.inject({ method: 'POST', url: '/api/certificate', headers, payload: { domain } })
}
await serve(app, {
  ca: options.includes('tls') ? toPem('CERTIFICATE', app.ca.root()!) : undefined,
})
