import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { open, testDeps } from '../../../../packages/identity-providers/test/kit.ts'
import { startSessionProvider } from '../../../../packages/identity-providers/test/stand-ins/session-provider.ts'
import { examineSignOut } from '../../src/doctor/sign-out.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { portalNamed, SITE } from '../session/kit.ts'

const RETURN = 'https://auth.example.com/portals/main/logout'

t.test('a provider that refuses the URI after a sign-out is named with it', async (t) => {
  const server = createServer(({ url = '' }, response) => {
    const status = Number(url.slice(1, 4))
    if (status === 0) return void response.destroy()
    response.writeHead(status, { location: RETURN }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  for (const [status, isRefused] of [
    ['302', false],
    ['200', false],
    ['400', true],
    ['404', false],
    ['500', false],
    ['000', false],
  ] as const) {
    const { provider, state } = createFakeProvider()
    state.logoutUrl = new URL(`http://127.0.0.1:${port}/${status}`)
    const portal = { ...portalNamed('main'), providers: new Map([['corp', provider]]) }
    const found = await examineSignOut({ portal, site: SITE })
    const text = `corp does not let people come back after signing out (400): register ${RETURN} there.`
    t.strictSame(found, isRefused ? [{ mistake: 'sign-out', text }] : [], status)
    t.equal(state.logoutUrl.searchParams.get('post_logout_redirect_uri'), RETURN)
  }
  const { provider } = createFakeProvider()
  const portal = { ...portalNamed('main'), providers: new Map([['corp', provider]]) }
  t.strictSame(await examineSignOut({ portal, site: SITE }), [], 'one without sign-out')
})

t.test('a real provider that does not know the URI', async (t) => {
  const idp = await startSessionProvider(t)
  const provider = { ...open(t, idp.options, testDeps()), title: 'Corp' }
  const portal = { ...portalNamed('main'), providers: new Map([['corp', provider]]) }
  t.strictSame(await examineSignOut({ portal, site: SITE }), [], 'the registered one')
  const [finding, ...others] = await examineSignOut({
    portal,
    site: { ...SITE, basePath: '/gate' },
  })
  t.match(finding, { mistake: 'sign-out', text: /^Corp does not .* register .*\/gate\/portals\// })
  t.strictSame(others, [])
})
