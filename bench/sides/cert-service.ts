import { toPem } from '@gatehouse/pki'
import { createLogger, createMetrics, systemClock } from '@gatehouse/service-kit'
import { buildApp } from '../../services/cert-service/src/app.ts'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { openOwnTls } from '../../services/cert-service/src/own-tls.ts'
import { openService } from '../../services/cert-service/src/service.ts'
import { serve } from '../harness/serve.ts'
import { API_KEY, certServiceFiles } from '../harness/service-files.ts'
import { createNoStore } from './no-store.ts'

const options = process.argv.slice(2)
const files = certServiceFiles(options.includes('tls') ? 'own' : 'off')
process.once('exit', files.remove)

const { value: config } = await loadCertConfig(files.config, {})
const log = createLogger({ ...config.log, name: 'cert-service' })
const metrics = createMetrics({ service: 'cert-service', version: 'bench' })
const openStore = async () => createNoStore()
const service = await openService(config, {
  clock: systemClock,
  log,
  metrics,
  ...(options.includes('no-store') && { openStore }),
})
const tls = await openOwnTls(config, service, log, () => {})
const app = await buildApp(config, { service, log, metrics, ...(tls && { tls: tls.current() }) })
// A GET never issues a certificate.
for (const option of options) {
  const [, domain] = option.split('holds=')
  if (domain === undefined) continue
  const headers = { authorization: `APIKey ${API_KEY}` }
  await app.inject({ method: 'POST', url: '/api/certificate', headers, payload: { domain } })
}
await serve(app, {
  ca: tls && toPem('CERTIFICATE', service.ca.root()!),
  onClose: () => service.close(),
})
