import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadClaims } from '@gatehouse/issuance/options'
import { parseName } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { START_RULES } from '../../src/cli/start-rules.ts'
import { loadCertConfig } from '../../src/config/load.ts'
import { start, written } from '../helpers/app.ts'

const RULES = ['example.com', '*.example.com', '=*.example.com']
const issuer = (...names: string[]) => ({
  name: 'public',
  type: 'acme',
  directory: 'https://acme.test/directory',
  agreeToTerms: true,
  names,
  challenges: [
    { type: 'dns-01', providers: [{ type: 'httpreq', endpoint: 'http://127.0.0.1:1' }] },
  ],
})

t.test('which public names an issuer is there for', async (t) => {
  const table: [rules: string[], yes: string[], no: string[]][] = [
    [
      ['app.example.com'],
      ['example.com', 'a.b.example.com', '*.dev.example.com', '*.example.com'],
      ['example.org', 'badexample.com', 'com', 'nas.lan', '10.0.0.1', 'localhost', '*.com'],
    ],
    [['*.example.co.uk'], ['a.example.co.uk'], ['a.other.co.uk', 'co.uk']],
    [['a.github.io'], ['b.a.github.io'], ['b.github.io', 'github.io']],
    [['*.co.uk'], ['*.a.other.co.uk', 'a.co.uk'], ['a.uk', 'a.org.uk']],
    [['*.internal', 'nas.lan', '=**.home.arpa'], [], ['a.internal', '*.nas.lan', 'b.lan']],
    [['203.0.113.0/24', '*'], [], ['a.example.com', '203.0.113.1']],
  ]
  for (const [names, yes, no] of table) {
    const claimOf = await loadClaims([
      { name: 'other', names: ['x.test'] },
      { name: 'one', names },
    ])
    for (const name of yes) t.equal(claimOf(parseName(name)), 'one', `${names}: ${name}`)
    for (const name of no) t.equal(claimOf(parseName(name)), undefined, `${names}: not ${name}`)
  }
})

const ask = (t: Test, changes: object) => start(t, { server: { tls: 'off' }, ...changes })

t.test(
  'a public name that an issuer is there for never goes silently to the private CA',
  async (t) => {
    const running = await ask(t, { issuers: [issuer(...RULES)] })
    const refused: [names: string[], pointer: string, detail: RegExp][] = [
      [
        ['*.dev.example.com'],
        '/domain',
        /in a domain of the issuer public, but no rule in its `names`/,
      ],
      [['app.example.com', 'nas.lan'], '/domain', /for the issuer public, which does not sign all/],
      [['nas.lan', 'app.example.com'], '/names/0', /^app\.example\.com is for the issuer public/],
      [['app.example.com', '10.0.0.1'], '/domain', /which does not sign all of the other names/],
    ]
    for (const [[domain, ...names], pointer, detail] of refused) {
      const body = { domain, names }
      const answer = await running.call('POST', '/api/certificate', body)
      t.match(answer, {
        status: 422,
        body: { code: 'CERT_NO_ISSUER', detail, errors: [{ pointer }] },
      })
      const dry = await running.call('POST', '/api/certificate?dryRun=true', body)
      t.match(dry, { status: 200, body: { obstacles: [detail] } }, 'an obstacle of the dry run')
    }
    t.equal(await written(running), 0)
    for (const domain of ['nas.lan', '*.lab.internal', 'app.example.org', 'example.test'])
      t.match(await running.call('POST', '/api/certificate', { domain }), { status: 200 }, domain)
  },
)

t.test('a rule for wildcards at any depth sends them to the issuer', async (t) => {
  const { service } = await ask(t, { issuers: [issuer(...RULES, '=**.example.com')] })
  for (const name of ['*.dev.example.com', '*.a.dev.example.com'])
    t.equal(service.issuers.choose([parseName(name)], 'server').name, 'public', name)
})

t.test('ca.permitted says which public names the private CA signs', async (t) => {
  const permitted = ['=*.dev.example.com', '*.lan']
  const { call } = await ask(t, { issuers: [issuer(...RULES)], ca: { permitted } })
  const answer = (domain: string) => call('POST', '/api/certificate', { domain })
  t.match(await answer('*.dev.example.com'), { status: 200 })
  t.match(await answer('*.prod.example.com'), { status: 422, body: { code: 'CERT_NOT_PERMITTED' } })
})

t.test('without an ACME issuer the private CA signs public names', async (t) => {
  const { call } = await ask(t, {})
  t.match(await call('POST', '/api/certificate', { domain: '*.dev.example.com' }), { status: 200 })
})

t.test('what the private CA issued before is renewed, not lost', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, { server: { tls: 'off' } }, { folder })
  const { body } = await first.call('POST', '/api/certificate', { domain: '*.dev.example.com' })
  await first.close()
  const changes = { server: { tls: 'off' }, issuers: [issuer(...RULES)] }
  const second = await start(t, changes, { folder, clock: first.clock })
  await second.clock.advance(6 * 86_400_000)
  const [record] = await second.service.store.findByDomain('*.dev.example.com')
  const renewed = await second.service.issuance.renew(record!, { actor: 'system' } as never)
  t.not(renewed.certificate?.record.serialNumber, body.serialNumber)
})

t.test('check-config names the configured certificates, each with its line', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  const load = async (config: object) => {
    const storage = { path: 'data', masterKeyFile: 'keys/master.key' }
    await writeFile(file, stringify({ storage, auth: { psk: { key: 'k'.repeat(16) } }, ...config }))
    return loadCertConfig(file, {}, { startRules: START_RULES })
  }
  const certificates = [{ names: ['nas.lan', '*.dev.example.com'] }, { names: ['app.example.com'] }]
  await t.rejects(load({ issuers: [issuer(...RULES)], certificates }), {
    code: 'CONFIG_INVALID',
    message: /:\d+:\d+.*names\/1 is in a domain of the issuer public/s,
  })
  await t.resolves(load({ issuers: [issuer(...RULES)], certificates: certificates.slice(1) }))
  await t.resolves(load({ certificates }))
  const permitted = ['nas.lan', '=*.dev.example.com', 'localhost']
  await t.resolves(load({ issuers: [issuer(...RULES)], certificates, ca: { permitted } }))
})
