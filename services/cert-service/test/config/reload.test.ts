import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { CertServiceConfig } from '../../src/config/schema.ts'
import { configure, createIdp, KEY, NOW, type Running, reload, start } from '../helpers/app.ts'

const NEW_KEY = 'a-key-that-a-reload-brings'
const keys = (...list: string[]) => ({
  psk: { keys: list.map((key, i) => ({ name: `k${i}`, key })) },
})

/** What somebody outside can see of the configuration in effect. */
async function seen(running: Running, idp: Awaited<ReturnType<typeof createIdp>>) {
  const ask = async (authorization: string, domain: string) =>
    (await running.call('POST', '/api/certificate', { domain }, { authorization })).status
  return {
    oldKey: await ask(`APIKey ${KEY}`, 'a.test'),
    newKey: await ask(`APIKey ${NEW_KEY}`, 'a.test'),
    token: await ask(`Bearer ${idp.token({ sub: 'ci' })}`, 'a.test'),
    tokenElsewhere: await ask(`Bearer ${idp.token({ sub: 'ci' })}`, 'b.test'),
    held: (await running.service.store.list({ after: 0, limit: 99 })).map(({ names }) => names[0]),
  }
}

async function running(t: Test) {
  const idp = await createIdp(t, () => NOW)
  const jwt = { issuerUrl: idp.issuerUrl, audience: 'certs' }
  const grant = (name: string) => [{ issuer: idp.issuerUrl, subject: 'ci', names: [name] }]
  const running = await start(t, {
    ca: { permitted: ['*.test'] },
    auth: { ...keys(KEY), jwt },
    rules: grant('a.test'),
    server: { tls: 'off' },
  })
  const config = await configure(running.folder, {
    ca: { permitted: ['*.test'] },
    auth: { ...keys(NEW_KEY), jwt },
    rules: grant('b.test'),
    server: { tls: 'off' },
    certificates: [{ names: ['configured.test'] }],
  })
  return { running, idp, config }
}

const faults: [part: string, fault: (config: CertServiceConfig) => object][] = [
  ['the configured certificates', () => ({ certificates: [{ names: ['outside.example'] }] })],
  ['the policy', ({ rules }) => ({ rules: [{ ...rules[0], names: ['not..a.name'] }] })],
  ['the callers', () => ({ auth: { psk: { key: 'short' } } })],
]

for (const [part, fault] of faults) {
  t.test(`a reload that fails at ${part} changes nothing`, async (t) => {
    const { running: service, idp, config } = await running(t)
    const before = await seen(service, idp)
    t.match(before, { oldKey: 200, newKey: 401, token: 200, tokenElsewhere: 403 })
    await t.rejects(reload(service, { ...config, ...fault(config) }))
    t.same(await seen(service, idp), before)
    service.service.start()
    await service.clock.advance(60_000)
    t.same(await seen(service, idp), before, 'and no new certificate is made')
  })
}

t.test('a valid reload applies completely, and a removed key is refused', async (t) => {
  const { running: service, idp, config } = await running(t)
  service.service.start()
  await seen(service, idp)
  await reload(service, config)
  t.match(await seen(service, idp), { oldKey: 401, newKey: 200, token: 403, tokenElsewhere: 200 })
  const { jwt: _, ...auth } = config.auth
  await reload(service, { ...config, auth, rules: [] })
  t.match(await seen(service, idp), { token: 401, tokenElsewhere: 401 }, 'nor a token seen before')
})

t.test('after a refused reload, tokens of its new issuer are refused', async (t) => {
  expectWarnings(t, 'every token may have every name')
  const [old, fresh] = [await createIdp(t, () => NOW), await createIdp(t, () => NOW)]
  const issuer = ({ issuerUrl }: typeof old) => ({ issuerUrl, audience: 'certs' })
  const running = await start(t, {
    ca: { permitted: ['*.example.com'] },
    auth: { jwt: { issuers: [issuer(old)] } },
    server: { tls: 'off' },
  })
  const changed = await configure(testFolder(t), {
    ca: { permitted: ['*.example.com', '*.new.test'] },
    auth: { jwt: { issuers: [issuer(old), issuer(fresh)] } },
    rules: [{ issuer: old.issuerUrl, subject: 'ci', names: ['*.example.com'] }],
    certificates: [{ names: ['www.new.test'] }],
    server: { tls: 'off' },
  })
  await t.rejects(reload(running, changed), { code: 'CERT_NOT_PERMITTED' })
  const ask = (idp: typeof old, sub: string) =>
    running.call(
      'POST',
      '/api/certificate',
      { domain: 'vault.example.com' },
      { authorization: `Bearer ${idp.token({ sub })}` },
    )
  t.match(await ask(fresh, 'anybody'), { status: 401 })
  t.match(await ask(old, 'anybody'), { status: 200 }, 'and the old policy is still the one')
})
