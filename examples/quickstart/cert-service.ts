import { writeFile } from 'node:fs/promises'
import { createFetch } from '@gatehouse/net'
import { toPem } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { serve } from '../../services/cert-service/src/cli/serve.ts'
import { loadCertConfig } from '../../services/cert-service/src/config/load.ts'
import { keepCertificate } from './certificate.ts'
import { type Running, startService } from './service.ts'
import { DOMAIN, type Settings, secret } from './settings.ts'

/** Starts cert-service and keeps a certificate for the gateway renewed. `ca` is the root in PEM. */
export async function startCertService(
  settings: Settings,
): Promise<Running & { readonly ca: string }> {
  const apiKey = await secret(settings, 'api.key')
  const { url, app, close } = await startService('cert-service', settings, loadCertConfig, serve)
  const ca = toPem('CERTIFICATE', app.ca.root() as Uint8Array)
  const fetch = createFetch({ ca })
  const running = {
    ...{ url, ca },
    async close() {
      await fetch.close()
      await close()
    },
  }
  try {
    await writeFile(settings.rootFile, ca)
    const log = createLogger({ level: 'warn', format: 'auto', name: 'quickstart' })
    const wish = { url, apiKey, domain: `*.${DOMAIN}`, file: settings.tlsFile }
    await keepCertificate(wish, { fetch, clock: systemClock, log })
    return running
  } catch (error) {
    await running.close()
    throw error
  }
}
