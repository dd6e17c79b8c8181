import t, { type Test } from 'tap'
import { newOrder } from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, NOW } from '../helpers/app.ts'
import { behindPortal, browse, type Sent } from '../helpers/browse.ts'

const RULES = [
  { people: 'anyone', names: ['*.a.test'], rights: ['read'] },
  {
    people: { groups: ['ops'] },
    names: ['*.a.test', 'a.test'],
    rights: ['issue', 'read'],
  },
]
const USUAL = { names: '', keyType: '' }

async function setup(t: Test) {
  const { running, person } = await behindPortal(t, { rules: RULES })
  const assertion = person({ groups: ['ops'] })
  const send = (body: Record<string, string>, sent: Sent = {}) =>
    browse(running, '/request', { assertion, body, ...sent })
  return { running, person, assertion, send, store: running.service.store }
}

t.test('a request is shown first, then made, and its certificate is shown', async (t) => {
  const { running, assertion, send, store } = await setup(t)
  t.match((await browse(running, '/', { assertion })).text, 'href="/request"')
  const form = await browse(running, '/request', { assertion })
  t.match(form, { status: 200, text: /<form method="post" action="\/request">/ })

  const wanted = {
    domain: 'App.a.test',
    names: 'www.a.test, a.test\nb.a.test',
    keyType: 'p384',
  }
  const tried = await send(wanted)
  t.match(tried.said, /No obstacles were found.*A request would order a new certificate/)
  t.strictSame(await store.list({ after: 0, limit: 9 }), [], 'nothing is ordered yet')

  const fields = [...tried.text.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)]
  const made = await send(Object.fromEntries(fields.map(([, name, value]) => [name, value])))
  const [record] = await store.list({ after: 0, limit: 9 })
  t.match(record, {
    keyType: 'p384',
    names: ['app.a.test', 'www.a.test', 'a.test', 'b.a.test'],
  })
  t.match(made, { status: 303, location: `/certificates/app.a.test/${record!.serialNumber}` })
  const shown = await browse(running, made.location!, { assertion, cookie: made.cookie })
  t.match(shown.said, 'app.a.test: issued.')
  t.match(await store.listAudit({ limit: 9 }), [{ action: 'issue', actor: 'person:corp:42' }])

  const again = await send({ ...wanted, confirmed: 'yes' })
  t.match(
    again,
    { status: 303, location: made.location, cookies: { length: 0 } },
    'what is held is shown',
  )
  t.equal((await store.listAudit({ limit: 9 })).length, 1, 'and is not handed out')
  const known = await send(wanted)
  t.match(known.said, 'would return the stored certificate')
  t.notMatch(known.text, 'name="confirmed"')
})

t.test('what cannot be requested is said at the form, which keeps what was typed in', async (t) => {
  const { send } = await setup(t)
  const cases: [
    why: string,
    body: Record<string, string>,
    status: number,
    said: RegExp,
    field: string,
  ][] = [
    ['no name', { domain: 'not a name', names: 'www.a.test' }, 400, /not a name/, 'domain'],
    ['no further name', { domain: 'x.a.test', names: 'www.a.test _' }, 400, /_/, 'names'],
    [
      'a name of others',
      { domain: 'x.b.test' },
      403,
      /Issue is not granted for x\.b\.test/,
      'domain',
    ],
    [
      'too many',
      { domain: 'x.a.test', names: 'y.a.test '.repeat(100) },
      400,
      /More than 100 names/,
      'domain',
    ],
  ]
  for (const [why, body, status, said, field] of cases) {
    const { text, ...answer } = await send({ ...USUAL, ...body })
    t.equal(answer.status, status, why)
    t.match(answer.said, said, why)
    t.match(text, 'role="alert"', why)
    t.match(text, new RegExp(`id="${field}"[^>]*aria-invalid="true" aria-describedby="wrong"`), why)
    t.match(text, `value="${body.domain}"`, why)
  }
})

t.test('who may not, requests nothing', async (t) => {
  const { running, person, send, store } = await setup(t)
  const body = { ...USUAL, domain: 'x.a.test', confirmed: 'yes' }
  const cases: [what: string, sent: Sent, status: number][] = [
    ['nobody', { assertion: undefined }, 401],
    ['somebody who may only see', { assertion: person() }, 403],
    ['a form of another site', { origin: 'https://evil.test' }, 403],
    ['a form without an origin', { origin: undefined }, 403],
  ]
  for (const [what, sent, status] of cases) t.equal((await send(body, sent)).status, status, what)
  t.equal((await send({ ...body, csr: 'x' })).status, 400, 'another member')
  t.equal((await send({ ...body, keyType: 'dsa' })).status, 400, 'another type of key')
  t.equal((await browse(running, '/request')).status, 401)
  t.strictSame(await store.list({ after: 0, limit: 9 }), [])
})

t.test('a failed order can be requested again, and one that still fails is shown', async (t) => {
  const { running, assertion, send, store } = await setup(t)
  const lastError = { code: 'ACME_CAA', detail: 'CAA forbids it', at: NOW }
  const names = ['f.a.test', 'g.a.test']
  const requestKey = 'ca|server|p256|f.a.test,g.a.test'
  const order = newOrder({
    id: 'f',
    requestKey,
    names,
    status: 'failed',
    lastError,
    nextTryAt: NOW + DAY,
    configuration: running.service.issuers.find('ca')?.configuration,
  })
  await store.saveOrder(order)
  const { text } = await browse(running, '/orders/f', { assertion })
  const [, href = ''] = /href="(\/request[^"]*)"/.exec(text) ?? []
  const form = await browse(running, href.replaceAll('&amp;', '&'), { assertion })
  t.match(form.text, 'value="f.a.test"')
  t.match(form.text, '\ng.a.test</textarea>')
  t.match(form.text, '<option value="p256" selected>')
  const failed = await send({
    domain: 'f.a.test',
    names: 'g.a.test',
    keyType: 'p256',
    confirmed: 'yes',
  })
  t.match(failed, { status: 303, location: '/orders/f' })
  await store.saveOrder({ ...order, csr: Buffer.from('x') })
  t.notMatch(
    (await browse(running, '/orders/f', { assertion })).text,
    '/request',
    'not with a key of the caller',
  )
})
