import type { Route } from '@gatehouse/gateway'
import { freePort } from '../../scripts/free-ports.ts'
import { serve } from '../../services/forward-auth/src/cli/serve.ts'
import { loadForwardAuthConfig } from '../../services/forward-auth/src/config/load.ts'
import { startCertService } from './cert-service.ts'
import { startGateway } from './gateway.ts'
import { type Running, startService } from './service.ts'
import { DOMAIN, makeFolders, type Settings } from './settings.ts'
import { startApp, startIdp } from './upstreams.ts'

/**
 * Starts both services, an identity provider, two protected apps and the gateway in front of them, all in
 * this process. Keys and certificates are created at the first start and kept.
 *
 * @param onReady - is told of each one that is ready, by its name
 * @throws the error of the first one that does not start, after the others are closed
 */
export async function startQuickstart(given: Settings, onReady: (name: string) => void = () => {}) {
  const GATEHOUSE_AUTH_PORT = given.env.GATEHOUSE_AUTH_PORT ?? String(await freePort())
  const settings: Settings = { ...given, env: { ...given.env, GATEHOUSE_AUTH_PORT } }
  const running: Running[] = []
  const routes = new Map<string, Route>()
  async function start<Part extends Running>(name: string, starting: Promise<Part>): Promise<Part> {
    const part = await starting
    running.push(part)
    onReady(name)
    return part
  }
  function open(name: string, { url }: Running, route: Omit<Route, 'upstream'> = {}): void {
    routes.set(`${name}.${DOMAIN}`, { upstream: url, ...route })
  }
  async function close(): Promise<void> {
    for (const part of running.splice(0).reverse()) await part.close()
  }

  try {
    makeFolders(settings)
    const certs = await start('cert-service', startCertService(settings))
    await start('gateway', startGateway(settings, routes, certs.ca))
    const idp = await start('provider', startIdp(settings))
    open('idp', idp)
    // forward-auth reaches the provider through the gateway, like browsers.
    const auth = await start(
      'forward-auth',
      startService('forward-auth', settings, loadForwardAuthConfig, serve),
    )
    open('auth', auth, { isGatehouse: true })
    const check = `${auth.url}/portals/main?policy=`
    open('certs', certs, { check: `${check}any` })
    open('app', await start('app', startApp('app', settings)), { check: `${check}any` })
    open('admin', await start('admin', startApp('admin', settings)), { check: `${check}admins` })
    return { idp, close }
  } catch (error) {
    await close()
    throw error
  }
}
