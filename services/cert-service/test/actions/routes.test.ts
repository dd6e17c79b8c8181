import { REVOCATION_REASONS } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, NOW } from '../helpers/app.ts'
import { behindPortal, browse, type Sent } from '../helpers/browse.ts'

const RULES = [
  { people: 'anyone', names: ['*.a.test'], rights: ['read'] },
  {
    people: { groups: ['ops'] },
    names: ['*'],
    rights: ['issue', 'read', 'renew', 'revoke', 'delete'],
  },
  { people: { groups: ['cleaners'] }, names: ['*'], rights: ['delete'] },
]
const DONE = '__Host-gatehouse-certs-done'

async function setup(t: Test) {
  const { running, person } = await behindPortal(t, { rules: RULES })
  const assertion = person({ groups: ['ops'] })
  for (const domain of ['x.a.test', 'y.a.test'])
    await running.call('POST', '/api/certificate', { domain })
  const see = (url: string, sent: Sent = {}) => browse(running, url, { assertion, ...sent })
  /** Sends a form, and gives the page that the browser is redirected to. */
  const send = async (url: string, body: Record<string, string> = {}, who = assertion) => {
    const posted = await browse(running, url, { assertion: who, body })
    const { location = '', cookie } = posted
    if (posted.status !== 303) return { posted, shown: posted }
    return { posted, shown: await browse(running, location, { assertion: who, cookie }) }
  }
  return { running, person, see, send, store: running.service.store }
}

t.test(
  'every reason of RFC 5280 is a choice, and is what the certificate is revoked for',
  async (t) => {
    const { running, see, send, store } = await setup(t)
    const asked = await see('/certificates/x.a.test/revoke')
    const choices = [...asked.text.matchAll(/type="radio" name="reason" value="(\w+)"/g)]
    t.strictSame(
      choices.map(([, reason]) => reason).toSorted(),
      Object.keys(REVOCATION_REASONS).toSorted(),
    )
    t.match(asked.text, 'value="unspecified" checked')
    for (const reason of Object.keys(REVOCATION_REASONS)) {
      const { body } = await running.call('POST', '/api/certificate', { domain: 'x.a.test' })
      const { posted, shown } = await send('/certificates/x.a.test/revoke', { reason })
      t.match(posted, { status: 303, location: '/certificates/x.a.test' }, reason)
      t.match(shown, { status: 200 }, reason)
      t.match(shown.text, `x.a.test: revoked one certificate (<code>${reason}</code>).`)
      t.match(await store.findBySerial('x.a.test', body.serialNumber), { revocationReason: reason })
    }
  },
)

t.test('what was done is said once, and only on the page of that name', async (t) => {
  const { see, send, store } = await setup(t)
  const { posted, shown } = await send('/certificates/x.a.test/delete')
  t.match(posted.cookies, [
    /^__Host-gatehouse-certs-done=[\w-]+; Max-Age=60; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  ])
  t.match(shown.text, 'role="status"><div class="notice good">')
  t.match(shown.said, 'x.a.test: deleted')
  t.match(shown.cookies, [/^__Host-gatehouse-certs-done=; /], 'and is forgotten')
  const other = await see('/certificates/y.a.test', { cookie: posted.cookie })
  t.notMatch(other.said, 'deleted')
  for (const forged of ['x', '{}', '{"action":"grant","domain":"y.a.test"}', '"\\u0000"', 'null']) {
    const cookie = `${DONE}=${Buffer.from(forged).toString('base64url')}`
    t.match(
      await see('/certificates/y.a.test', { cookie }),
      { status: 200, text: /y\.a\.test/ },
      forged,
    )
  }

  const due = newCertificate({ names: ['due.a.test'], renewAt: NOW - DAY })
  await store.addCertificate(due, newAudit())
  const renewed = await send('/certificates/due.a.test/renew')
  t.match(renewed.shown.said, 'due.a.test: renewed.')
  t.match(renewed.shown.said, 'In service. It renews')
})

t.test('an order that goes on is said to have begun', async (t) => {
  const { running, send, store } = await setup(t)
  const due = newCertificate({ names: ['slow.a.test'], renewAt: NOW - DAY })
  await store.addCertificate(due, newAudit())
  const order = newOrder({ id: 'goes-on', requestKey: due.requestKey, names: due.names })
  await store.saveOrder(order)
  running.service.issuance.renew = async () => ({ order })
  const { shown } = await send('/certificates/slow.a.test/renew')
  t.match(shown.text, 'role="status"><div class="notice busy">')
  t.match(shown.text, '<a href="/orders/goes-on">See its progress</a>')
})

t.test('who may delete but not see is told that it is done', async (t) => {
  const { running, person, send } = await setup(t)
  const cleaner = person({ groups: ['cleaners'] })
  await running.call('POST', '/api/certificate', { domain: 'x.b.test' })
  t.equal((await browse(running, '/certificates/x.b.test', { assertion: cleaner })).status, 403)
  const { shown } = await send('/certificates/x.b.test/delete', {}, cleaner)
  t.match(shown, { status: 200, said: /x\.b\.test: deleted/ })
  t.equal((await send('/certificates/x.b.test/delete', {}, cleaner)).shown.status, 404, 'once')
})

t.test('what is asked says what would be done', async (t) => {
  const { running, see } = await setup(t)
  const { body } = await running.call('GET', '/api/certificate/x.a.test')
  for (const action of ['revoke', 'delete']) {
    const { text } = await see(`/certificates/x.a.test/${action}`)
    t.match(text, body.serialNumber, `${action}: which certificates`)
    t.match(text, `<form method="post" action="/certificates/x.a.test/${action}">`)
    t.match(text, '<a href="/certificates/x.a.test">Back', 'and the way back')
  }
  const early = await see('/certificates/x.a.test/renew')
  t.match(early.said, /x\.a\.test is not due yet .*It can be renewed in \d+ days/)
  t.notMatch(early.text, '<form', 'there is nothing to send')
})

t.test('a refusal says what to do', async (t) => {
  const { see, send } = await setup(t)
  const { shown } = await send('/certificates/x.a.test/renew')
  t.match(shown, { status: 429, headers: { 'content-type': /^text\/html/ } })
  t.match(shown.text, '<h1 class="toned warn">')
  t.match(shown.said, 'CERT_RENEW_TOO_SOON')
  const none = await see('/certificates/none.a.test/revoke')
  t.match(none, { status: 404, text: /<h1 class="toned bad">/ })
})

t.test('a dry run shows what would happen, and changes nothing', async (t) => {
  const { running, person, see, store } = await setup(t)
  const before = (await store.listAudit({ limit: 100 })).length
  t.match((await see('/certificates/x.a.test/dry-run')).said, 'Nothing is ordered or changed')
  const held = await see('/certificates/x.a.test/dry-run', { body: {} })
  t.equal(held.status, 200)
  t.match(held.text, '<div class="notice good">')
  t.match(held.said, /would return the stored certificate/)
  const free = await see('/certificates/new.a.test/dry-run', { body: {} })
  t.match(free.said, 'A request would order a new certificate.')

  const lastError = { code: 'ACME_CAA', detail: 'CAA forbids it', at: NOW }
  const names = ['f.a.test', 'g.a.test']
  await store.saveOrder(
    newOrder({
      id: 'f',
      requestKey: 'ca|server|p256|f.a.test,g.a.test',
      names,
      status: 'failed',
      lastError,
      nextTryAt: NOW + DAY,
      configuration: running.service.issuers.find('ca')?.configuration,
    }),
  )
  const failed = await see('/certificates/f.a.test/dry-run', { body: { order: 'f' } })
  t.match(failed.text, '<div class="notice bad">')
  t.match(failed.said, /It would fail: .*CAA forbids it.*f\.a\.test, g\.a\.test/)
  t.equal(
    (await see('/certificates/x.a.test/dry-run', { body: { order: 'f' } })).status,
    404,
    'of another name',
  )
  t.equal((await store.listAudit({ limit: 100 })).length, before)

  const assertion = person()
  for (const body of [undefined, {}]) {
    const refused = await browse(running, '/certificates/x.a.test/dry-run', {
      assertion,
      ...(body && { body }),
    })
    t.equal(refused.status, 403, 'only for those who may request it')
  }
})

t.test('what failed can be tried now, from its pages', async (t) => {
  const { running, see, send, person, store } = await setup(t)
  const lastError = { code: 'ACME_CAA', detail: 'CAA forbids it', at: NOW - 2 * DAY }
  const { configuration } = running.service.issuers.find('ca')!
  const failed = { status: 'failed', lastError, nextTryAt: NOW + DAY, configuration } as const
  const name = 'f.a.test'
  const requestKey = `ca|server|p256|${name}`
  await store.saveOrder(newOrder({ ...failed, id: 'f', requestKey, names: [name] }))
  const [held] = await store.findByDomain('x.a.test')
  await store.saveOrder(
    newOrder({ ...failed, id: 'x', requestKey: held!.requestKey, names: ['x.a.test'] }),
  )
  const link = (domain: string, query = '') => `href="/certificates/${domain}/retry${query}"`
  for (const [url, domain, query] of [
    ['/orders/f', name, '?order=f'],
    ['/certificates/x.a.test', 'x.a.test', ''],
  ] as const) {
    const page = await see(url)
    t.match(page.text, link(domain, query), url)
    t.match(page.said, /Last try failed 2 days ago ?: CAA forbids it/)
  }
  const form = { domain: name, names: '', keyType: '' }
  t.match((await see('/request', { body: form })).text, link(name), 'and where it is requested')
  t.notMatch((await see('/certificates/y.a.test')).text, link('y.a.test'), 'nothing failed there')
  t.match((await see(`/certificates/${name}/retry`)).said, `Try ${name} now?`)

  const { shown } = await send(`/certificates/${name}/retry`)
  t.match(shown.said, `${name} : issued.`.replace(' :', ':'))
  t.equal((await store.findByDomain(name)).length, 1)
  const none = await send(`/certificates/${name}/retry`)
  t.match(none.shown, { status: 404, said: /CERT_ORDER_NOT_FOUND/ })
  const refused = await send('/certificates/x.a.test/retry', {}, person())
  t.equal(refused.shown.status, 403, 'for those who may request it')
  t.match(await store.findOrder('x'), { status: 'failed', nextTryAt: NOW + DAY })
})
