import t, { type Test } from 'tap'
import { issueCertificate } from '../helpers/certificates.ts'
import { createClient } from '../helpers/client.ts'
import { type Echo, startEcho } from '../helpers/echo.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import { PROXIES, readExample } from '../helpers/proxies.ts'

type Proxy = keyof typeof PROXIES

const CONFIG = readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])
const NAME = 'Zoë 😀 à'

/** What reaches the app of a display name, as its server reads bytes: one character each. */
async function displayName(t: Test, proxy: Proxy, encoding: string): Promise<string> {
  const folder = t.testdir({})
  const yaml = CONFIG.replace('providers:', `headerEncoding: ${encoding}\n    providers:`)
  const gatehouse = await startGatehouse(t, yaml)
  const { port: appPort } = await startEcho(t)
  const certificate = await issueCertificate(folder, ['app.example.com', 'auth.example.com'])
  const port = await freePort()
  await PROXIES[proxy](t, { folder, certificate, port, gatehousePort: gatehouse.port, appPort })
  const ask = createClient(port, certificate.rootPem)
  const cookie = gatehouse.signIn('main', { name: NAME })
  const { status, body } = await ask({ headers: { cookie } })
  t.equal(status, 200)
  return (JSON.parse(body) as Echo).cgi.HTTP_X_FORWARDED_DISPLAYNAME?.join() ?? ''
}

for (const proxy of Object.keys(PROXIES) as Proxy[]) {
  const skip = proxy === 'envoy' && !process.env.ENVOY && 'ENVOY does not name its program'
  t.test(`${proxy} passes on a name in every encoding`, { skip }, async (t) => {
    const table: [encoding: string, wire: string][] = [
      ['percent', 'Zo%C3%AB %F0%9F%98%80 %C3%A0'],
      ['utf-8', Buffer.from(NAME).toString('latin1')],
      ['rfc8187', "UTF-8''Zo%C3%AB%20%F0%9F%98%80%20%C3%A0"],
    ]
    for (const [encoding, wire] of table)
      await t.test(encoding, async (t) => t.equal(await displayName(t, proxy, encoding), wire))
  })
}
