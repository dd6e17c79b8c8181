import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type AppName, createApp } from '@gatehouse/apps'
import { type DemoIdp, startDemoIdp } from '@gatehouse/demo-idp'
import type { Running } from './service.ts'
import { type Settings, secret } from './settings.ts'

/** Starts a provider with forward-auth as its client. */
export async function startIdp(settings: Settings): Promise<DemoIdp> {
  const portal = `${settings.originOf('auth')}/portals/main`
  const client = {
    clientId: 'gatehouse',
    clientSecret: await secret(settings, 'idp-client.secret'),
    redirectUris: [`${portal}/providers/demo/callback`],
    postLogoutRedirectUris: [`${portal}/logout`],
  }
  return startDemoIdp({ issuer: settings.originOf('idp'), clients: [client] })
}

/** Starts one of the protected apps. */
export async function startApp(name: AppName, { authority }: Settings): Promise<Running> {
  const server = createServer(createApp(name, authority)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
