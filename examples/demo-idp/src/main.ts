// Runs the identity provider behind a proxy that serves HTTPS.
import { readFileSync } from 'node:fs'
import { startDemoIdp } from './start.ts'

const { HOST = '127.0.0.1', PORT = '8080', GATEHOUSE_HTTPS_PORT = '443' } = process.env
const { CLIENT_SECRET_FILE = 'client.secret' } = process.env
const auth = new URL(`https://auth.gatehouse.localhost:${GATEHOUSE_HTTPS_PORT}`).origin

const starting = startDemoIdp({
  issuer: `https://idp.gatehouse.localhost:${GATEHOUSE_HTTPS_PORT}`,
  host: HOST,
  port: Number(PORT),
  clients: [
    {
      clientId: 'gatehouse',
      clientSecret: readFileSync(CLIENT_SECRET_FILE, 'utf8').trim(),
      redirectUris: [`${auth}/portals/main/providers/demo/callback`],
      postLogoutRedirectUris: [`${auth}/portals/main/logout`],
    },
  ],
})
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, async () => (await starting).close())
