import auth from '@gatehouse/auth-core'
import Fastify from 'fastify'
import t from 'tap'
import { dispatcherOf } from '../../../../packages/auth-core/test/kit.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { SHAPES, type Shape } from '../shapes.ts'

const TRAEFIK = SHAPES.find(({ proxy }) => proxy.startsWith('traefik')) as Shape
const HEADER = 'x-gatehouse-assertion'
const MAIN = 'https://auth.example.com/portals/main'

t.test('an app with auth-core knows who passed the check', async (t) => {
  const gate = await startApp(
    t,
    yamlOf(portalOf('main', 'assertion: { hosts: ["*.example.com"] }')),
  )
  const cookie = await gate.signIn('main', { name: 'Ada Lovelace', groups: ['staff'] })
  const assertionAt = async (host: string) => {
    const headers = { Cookie: cookie, Accept: 'application/json', 'X-Forwarded-Host': host }
    const answer = await gate.check(TRAEFIK, { ...headers, 'X-Forwarded-Method': 'GET' })
    return String(answer.headers[HEADER])
  }

  const published = new Map<string, string>()
  for (const name of ['openid-configuration', 'jwks.json']) {
    const url = new URL(`${MAIN}/.well-known/${name}`)
    const headers = { host: url.host, 'x-forwarded-proto': 'https' }
    const { body } = await gate.app.inject({ url: url.pathname, headers })
    published.set(url.href, body)
  }

  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(auth, {
    assertion: { issuerUrl: MAIN, audience: 'https://app.example.com' },
    now: gate.clock.now,
    dispatcher: dispatcherOf((url) => published.get(url) ?? ''),
  })
  app.get('/', { onRequest: app.requirePerson() }, ({ person }) => person)
  const ask = (value: string, header = HEADER) =>
    app.inject({ url: '/', headers: { [header]: value } })

  const here = await ask(await assertionAt('app.example.com'))
  t.equal(here.statusCode, 200, here.body)
  t.match(here.json(), { provider: 'corp', id: 'ada', groups: ['staff'] })
  t.equal((await ask(await assertionAt('other.example.com'))).statusCode, 401, 'at another app')
  t.equal((await ask(cookie.split('=')[1] ?? '')).statusCode, 401, 'nor a session token')
})
