import { buildGateway, type Route } from '@gatehouse/gateway'
import { runApp } from '@gatehouse/service-kit/lifecycle'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { applyTls, tlsFromFiles } from '@gatehouse/service-kit/tls'
import type { Running } from './service.ts'
import type { Settings } from './settings.ts'

/** Every header that the portal sends: `headers` in forward-auth.yaml. */
const IDENTITY_HEADERS = [
  ...['X-Forwarded-User', 'X-Forwarded-Displayname', 'X-Authenticated-User'],
  'X-Gatehouse-Assertion',
  ...['Remote-User', 'Remote-Name', 'Remote-Email', 'Remote-Groups'],
]

/**
 * Starts the gateway that browsers connect to, with a certificate of cert-service.
 *
 * @param ca - the root of cert-service, in PEM
 */
export async function startGateway(
  { tlsFile, httpsPort }: Settings,
  routes: ReadonlyMap<string, Route>,
  ca: string,
): Promise<Running> {
  const log = createLogger({ level: 'warn', format: 'auto', name: 'gateway' })
  const tls = await tlsFromFiles({
    certFile: tlsFile,
    keyFile: tlsFile,
    log,
    onChange: (fresh) => applyTls(app, fresh),
  })
  const app = await buildGateway({
    ...{ routes, ca, log },
    identityHeaders: IDENTITY_HEADERS,
    tls: tls.current(),
  })
  const onClose = async () => tls.close()
  return runApp({ app, host: '127.0.0.1', port: httpsPort, log, onClose })
}
