import { toPem } from '@gatehouse/pki'
import { createLogger, createMetrics } from '@gatehouse/service-kit/telemetry'
import { buildApp } from '../../services/cert-service/src/app.ts'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { serve } from '../harness/serve.ts'
import { API_KEY, certServiceFiles } from '../harness/service-files.ts'
import { createNoStore } from './no-store.ts'

const options = process.argv.slice(2)
const storage = options.find((option) => option.startsWith('{'))
/** Where devices answer http-01, which any address of loopback may do. */
const [proofPort] = options.flatMap((option) => option.split('proofs=')[1] ?? []).map(Number)
const open = `acme: { open: [127.0.0.0/8] }
rules: [{ names: [127.0.0.0/8], acme: open }]
`
const files = certServiceFiles(
  options.includes('tls') ? 'own' : 'off',
  storage,
  proofPort === undefined ? '' : open,
)
process.once('exit', files.remove)

const { value: config } = await loadCertConfig(files.config, {})
const log = createLogger({ ...config.log, name: 'cert-service' })
const metrics = createMetrics({ service: 'cert-service', version: 'bench' })
const openStore = async () => createNoStore()
const app = await buildApp(config, {
  log,
  metrics,
  ...(options.includes('no-store') && { openStore }),
  ...(proofPort !== undefined && { proofPorts: { 'http-01': proofPort, 'tls-alpn-01': 0 } }),
})
// A GET never issues a certificate.
for (const option of options) {
  const [, domain] = option.split('holds=')
  if (domain === undefined) continue
  const headers = { authorization: `APIKey ${API_KEY}` }
  await app.inject({ method: 'POST', url: '/api/certificate', headers, payload: { domain } })
}
// Each is used once, as by so many requests.
const [nonces = 0] = options.flatMap((option) => option.split('nonces=')[1] ?? []).map(Number)
for (let n = 0; n < nonces; n++) app.acme.nonces.use(app.acme.nonces.issue())
await serve(app, {
  ca: options.includes('tls') ? toPem('CERTIFICATE', app.ca.root()!) : undefined,
})
