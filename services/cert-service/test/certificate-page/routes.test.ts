import { X509Certificate } from 'node:crypto'
import t, { type Test } from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, KEY, NOW } from '../helpers/app.ts'
import { behindPortal, browse } from '../helpers/browse.ts'

const RULES = [
  { people: 'anyone', names: ['*.a.test'], rights: ['read'] },
  {
    people: { groups: ['ops'] },
    names: ['*'],
    rights: ['issue', 'read', 'renew', 'revoke', 'delete'],
  },
]
const ops = { groups: ['ops'], name: 'Ada Lovelace' }

async function setup(t: Test) {
  const { running, person } = await behindPortal(t, { rules: RULES })
  const issue = async (domain: string, more: object = {}) =>
    (await running.call('POST', '/api/certificate', { domain, ...more })).body
  const add = (changes: Parameters<typeof newCertificate>[0]) =>
    running.service.store.addCertificate(newCertificate(changes), newAudit())
  const see = (url: string, claims: object = ops) =>
    browse(running, url, { assertion: person(claims) })
  return { running, person, issue, add, see, store: running.service.store }
}

t.test('the page of a name shows all about its newest certificate', async (t) => {
  const { running, issue, see } = await setup(t)
  const issued = await issue('app.a.test', { names: ['www.a.test'] })
  const { status, text, said } = await see('/certificates/app.a.test')
  t.equal(status, 200)
  const { serialNumber, fingerprint256, certificate, privateKey } = issued
  const x509 = new X509Certificate(certificate)
  for (const part of [
    ...['app.a.test', 'www.a.test', serialNumber, fingerprint256, x509.fingerprint256],
    ...['the embedded CA', 'p256', 'In service.', 'Next renewal', 'Last fetched', 'Ada Lovelace'],
    ...[x509.issuer.replaceAll('\n', ', '), 'gatehouse-certs get app.a.test www.a.test'],
  ])
    t.ok(text.includes(part) || said.includes(part), part)
  t.match(text, 'href="/ca/root.pem"')
  const root = new X509Certificate(running.service.ca.root()!)
  t.match(text, root.fingerprint256, 'the root is the end of the chain')
  t.notMatch(text, privateKey.split('\n')[1], 'never a private key')
  t.notMatch(text, /PRIVATE KEY/)

  t.match(await see('/certificates/www.a.test'), {
    status: 302,
    location: '/certificates/app.a.test',
  })
  const exact = await see(`/certificates/app.a.test/${serialNumber}`)
  t.match(exact, { status: 200, text: fingerprint256 })
})

t.test('its files are certificates alone', async (t) => {
  const { issue, see } = await setup(t)
  const { serialNumber, certificate } = await issue('*.a.test')
  const base = `/certificates/%2A.a.test/${serialNumber}`
  const chain = await see(`${base}/chain.pem`)
  t.equal(chain.text, certificate)
  t.match(chain.headers, {
    'content-type': 'application/x-pem-file',
    'content-disposition': 'attachment; filename="_.a.test-chain.pem"',
  })
  const leaf = await see(`${base}/leaf.pem`)
  t.equal(
    leaf.text,
    `${certificate.split('-----END CERTIFICATE-----\n', 1)[0]}-----END CERTIFICATE-----\n`,
  )
  t.equal((await see(`${base}/key.pem`)).status, 404)
  t.equal((await see(`/certificates/%2A.a.test/${serialNumber.toUpperCase()}`)).status, 200)
  t.match(await see('/certificates'), { status: 302, location: '/' }, 'the list of all')
})

t.test('the history has what was replaced, revoked and deleted', async (t) => {
  const { add, see, store } = await setup(t)
  const old = await add({ names: ['x.a.test'], serialNumber: 'aa01' })
  await add({ names: ['x.a.test'], serialNumber: 'aa02' })
  const revoked = await add({ names: ['x.a.test'], serialNumber: 'bb', requestKey: 'b' })
  const deleted = await add({ names: ['x.a.test'], serialNumber: 'cc', requestKey: 'c' })
  await store.revoke([revoked.id], NOW, 'keyCompromise', newAudit({ action: 'revoke' }))
  await store.remove([deleted.id], newAudit({ action: 'delete' }))

  const { said } = await see('/certificates/x.a.test')
  t.match(
    said,
    /cc Out of service: it was deleted.*bb Revoked on .*aa02 \(this page\) In service.*aa01 Replaced by a newer one on/,
  )
  const cases: [serial: string, said: RegExp][] = [
    ['aa01', /Replaced by a newer one on 1 Jan 2030, 00:00 .*Its replacement/],
    ['bb', /Revoked on 1 Jan 2030.*Somebody else may have the private key.*keyCompromise/],
    ['cc', /Out of service: it was deleted/],
  ]
  for (const [serial, expected] of cases) {
    const page = await see(`/certificates/x.a.test/${serial}`)
    t.match(page.said, expected, serial)
    t.notMatch(page.text, '/certificates/x.a.test/revoke"', `${serial}: nothing is left to do`)
  }
  const names = ['y.a.test']
  const other = await add({ names, serialNumber: 'dd', requestKey: 'd', askedBy: 'psk:web' })
  const next = newCertificate({ names, requestKey: 'e', askedBy: 'psk:web' })
  const predecessor = { ...other, reason: 'due' } as const
  const { id } = await store.addCertificate(next, newAudit(), { predecessor })
  t.match((await see('/certificates/y.a.test/dd')).said, 'Replaced by a newer one on')
  await store.remove([id], newAudit({ action: 'delete' }))
  const { serialNumber } = next
  t.match(
    (await see(`/certificates/y.a.test/${serialNumber}`)).said,
    'it was deleted, and is no longer served. Copies stay valid until it expires or is revoked',
  )
  const successor = await see(`/certificates/x.a.test/${old.serialNumber}`)
  t.match(successor.text, '<a href="/certificates/x.a.test/aa02">Its replacement</a>')
})

t.test('a name without a certificate in service has its history', async (t) => {
  const { add, see, store } = await setup(t)
  const { id } = await add({ names: ['gone.a.test'] })
  await store.remove([id], newAudit({ action: 'delete' }))
  const { status, said, text } = await see('/certificates/gone.a.test')
  t.equal(status, 200)
  t.match(said, 'No certificate of this name is in service')
  t.match(text, 'href="/certificates/gone.a.test/revoke"', 'copies can still be revoked')
})

t.test('a failure says why, what to do and when the next try is', async (t) => {
  const { add, see, store } = await setup(t)
  const lastError = { code: 'ACME_CAA', detail: 'CAA of a.test forbids it', at: NOW }
  const failed = { status: 'failed', lastError, nextTryAt: NOW + 3_600_000, failures: 2 } as const
  const { requestKey } = await add({ names: ['x.a.test'] })
  await store.saveOrder(newOrder({ id: 'of-x', requestKey, names: ['x.a.test'], ...failed }))
  await store.saveOrder(
    newOrder({ id: 'never', requestKey: 'n', names: ['never.a.test'], ...failed }),
  )
  for (const url of ['/certificates/x.a.test', '/orders/of-x', '/orders/never']) {
    const { status, said, text } = await see(url)
    t.equal(status, 200, url)
    t.match(
      said,
      /The last order failed.*CAA of a\.test forbids it.*CAA record.*ACME_CAA.*Next try: in 60 minutes at the earliest/,
      url,
    )
    t.match(text, 'href="/errors#ACME_CAA"', url)
  }
  t.match(await see('/certificates/never.a.test'), { status: 302, location: '/orders/never' })
  await store.saveOrder(
    newOrder({ id: 'pending', requestKey: 'p', names: ['p.a.test'], step: 'waiting for the CA' }),
  )
  t.match(
    (await see('/orders/pending')).said,
    'An order is under way. Its step is waiting for the CA',
  )
})

t.test('what one may not see looks as if it did not exist', async (t) => {
  const { add, see, store } = await setup(t)
  await add({ names: ['x.b.test'], serialNumber: 'ab' })
  await add({ names: ['y.a.test', 'y.b.test'], serialNumber: 'cd' })
  const gone = await add({ names: ['gone.b.test'], serialNumber: 'ef' })
  await store.revoke([gone.id], NOW, 'superseded', newAudit({ action: 'revoke' }))
  await store.saveOrder(
    newOrder({ id: 'hidden', requestKey: 'h', names: ['f.b.test'], status: 'failed' }),
  )
  const pairs: [status: number, hidden: string, absent: string][] = [
    [403, '/certificates/x.b.test', '/certificates/none.b.test'],
    [404, '/certificates/y.a.test', '/certificates/none.a.test'],
    [403, '/certificates/gone.b.test', '/certificates/none.b.test'],
    [403, '/certificates/f.b.test', '/certificates/none.b.test'],
    [404, '/certificates/y.a.test', '/certificates/no%20name'],
    [403, '/certificates/x.b.test/ab', '/certificates/none.b.test/ab'],
    [404, '/certificates/y.a.test/cd', '/certificates/y.a.test/ce'],
    [403, '/certificates/x.b.test/ab/chain.pem', '/certificates/none.b.test/ab/chain.pem'],
    [404, '/certificates/y.a.test/cd', '/certificates/x.b.test/%00'],
    [404, '/certificates/y.a.test/cd', '/certificates/x.b.test/grant'],
    [404, '/orders/hidden', '/orders/none'],
  ]
  const textOf = ({ text }: { text: string }) => text.replaceAll(/(?<=for )[\w.]+\.test/g, 'NAME')
  for (const [status, hidden, absent] of pairs) {
    const [one, other] = [await see(hidden, {}), await see(absent, {})]
    t.equal(one.status, status, hidden)
    t.equal(textOf(one), textOf(other), `${hidden} and ${absent}`)
  }
  t.match(
    (await see('/certificates/x.b.test', {})).said,
    /You may not see certificates for x\.b\.test\. Ask whoever runs this service/,
  )
  t.equal((await see('/certificates/x.b.test')).status, 200, 'for those who may see it')
})

t.test('who did what is for those who may revoke', async (t) => {
  const { running, issue, see } = await setup(t)
  await issue('app.a.test')
  await running.call('GET', '/api/certificate/app.a.test')
  const { said } = await see('/certificates/app.a.test')
  t.match(said, /Recent activity .*Fetched · psk:default · 127\.0\.0\.1 .*Issued · psk:default/)
  t.match(said, /Last fetched this minute 1 Jan 2030, 00:00 UTC Fetched by psk:default/)
  t.notMatch((await see('/certificates/app.a.test', {})).text, /psk:default|Recent activity/)
})

t.test('nobody is told anything before signing in, and comes back after it', async (t) => {
  const { running, issue } = await setup(t)
  const { serialNumber } = await issue('app.a.test')
  const urls = [
    '/certificates/app.a.test',
    `/certificates/app.a.test/${serialNumber}`,
    `/certificates/app.a.test/${serialNumber}/chain.pem`,
    '/certificates/none.a.test',
    '/orders/none',
  ]
  for (const url of urls) {
    const asked = await browse(running, url)
    t.equal(asked.status, 401, url)
    t.match(asked.text, `<input type="hidden" name="to" value="${url}">`)
  }
  const [to = ''] = urls
  const entered = await browse(running, '/', { body: { key: KEY, to } })
  t.match(entered, { status: 303, location: to })
  const seen = await browse(running, to, { cookie: entered.cookie })
  t.equal(seen.status, 200)
  t.notMatch(
    seen.text,
    /certificates\/app\.a\.test\/(renew|revoke|delete|dry-run)"/,
    'a key looks on',
  )
  for (const elsewhere of [
    '//evil.test',
    'https://evil.test/',
    '/',
    '/certificates/\\evil',
    '/docs',
  ])
    t.equal(
      (await browse(running, '/', { body: { key: KEY, to: elsewhere } })).status,
      400,
      elsewhere,
    )
  const wrong = await browse(running, '/', { body: { key: 'wrong', to } })
  t.match(wrong.text, `name="to" value="${to}"`, 'also after a wrong key')
})

t.test('a late certificate says who is to renew it, or who has its names by now', async (t) => {
  const { add, see, store } = await setup(t)
  const names = ['late.a.test']
  const client = { way: 'acme', account: 'a', client: 'lego/4.17', address: '10.1.2.3' } as const
  const old = { names, askedBy: 'psk:web', requestKey: 'old', renewAt: NOW, ...client }
  const { serialNumber } = await add({ ...old, serialNumber: 'ee' })
  const said = async () => (await see(`/certificates/late.a.test/${serialNumber}`)).said
  t.match(
    await said(),
    'The account of the client lego/4.17 at 10.1.2.3 has ended. Have the client make another one. It has never asked when to renew.',
  )
  const account = { id: 'a', caller: null, thumbprint: 't', jwk: '{}', status: 'valid' } as const
  const seen = { client: null, remoteAddress: null, createdAt: NOW, usedAt: NOW }
  await store.acme.addAccount({ ...account, ...seen, boundBy: null, contact: [] }, newAudit())
  t.match(await said(), /The client lego\/4\.17 at 10\.1\.2\.3 was last seen .* Restart it there/)
  const later = { names, notAfter: NOW + 90 * DAY, renewAt: NOW + 60 * DAY }
  await add({ ...later, askedBy: 'psk:other', requestKey: 'other' })
  t.match(await said(), /Another caller has newer certificates for all of its names. If they/)
  await add({ ...later, askedBy: 'psk:web', requestKey: 'own', notAfter: NOW + 91 * DAY })
  t.match(await said(), 'Newer certificates have all of its names, so there is nothing to do.')
  const { id } = (await store.findBySerial('late.a.test', serialNumber))!
  const entry = newAudit({ action: 'request-renewal', actor: 'person:portal:ada' })
  await store.requestRenewals(new Map([[id, NOW]]), entry)
  t.match(await said(), /What happened to it.*Renewal requested · person:portal:ada/)
})

t.test('the client of an account that has ended is not told to be restarted', async (t) => {
  const { add, see, store } = await setup(t)
  const account = {
    ...{ caller: 'gone', boundBy: 'gone', thumbprint: 'a', jwk: '{}', status: 'valid' as const },
    ...{ contact: [], client: null, remoteAddress: null, createdAt: NOW, usedAt: NOW },
  }
  await store.acme.addAccount({ ...account, id: 'a' }, newAudit())
  const of = { way: 'acme', account: 'a', client: 'lego', address: '10.0.0.1' } as const
  await add({ names: ['app.a.test'], renewAt: NOW, ...of })
  const due = await see('/certificates/app.a.test')
  t.match(due.said, 'The account of the client lego at 10.0.0.1 has ended.')
  t.notMatch(due.said, 'Restart it there')
  t.notMatch(due.text, 'href="/certificates/app.a.test/renew"')
  t.match(due.text, 'href="/certificates/app.a.test/revoke"')
  t.match(
    (await see('/certificates/app.a.test/renew')).said,
    'Its ACME client is asked to renew it.',
  )
  await store.setRenewAt((await store.findByDomain('app.a.test'))[0]!.id, NOW + DAY)
  const early = await see('/certificates/app.a.test/renew')
  t.match(early.said, 'and its ACME client does this')
  t.notMatch(early.said, 'the service does this')
})
