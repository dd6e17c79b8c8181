// Runs the identity provider behind a proxy that serves HTTPS.
import { readFileSync } from 'node:fs'
import { startDemoIdp } from './start.ts'

const { HOST = '127.0.0.1', PORT = '8080', GATEHOUSE_HTTPS_PORT = '443' } = process.env
const { CLIENT_SECRET_FILE = 'client.secret', CLIENT_SECRET } = process.env
const { DOMAIN = 'gatehouse.localhost', ISSUER_HOST = 'idp', PROVIDER = 'demo' } = process.env
const originOf = (host: string) =>
  new URL(`https://${host}.${DOMAIN}:${GATEHOUSE_HTTPS_PORT}`).origin
const auth = originOf('auth')

const starting = startDemoIdp({
  issuer: originOf(ISSUER_HOST),
  host: HOST,
  port: Number(PORT),
  clients: [
    {
      clientId: 'gatehouse',
      clientSecret: CLIENT_SECRET ?? readFileSync(CLIENT_SECRET_FILE, 'utf8').trim(),
      redirectUris: [`${auth}/portals/main/providers/${PROVIDER}/callback`],
      postLogoutRedirectUris: [`${auth}/portals/main/logout`],
    },
  ],
})
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, async () => (await starting).close())
