import t, { type Test } from 'tap'
import { createIdp, DAY, KEY, NOW, type Running, start } from '../helpers/app.ts'
import { newAudit, newCertificate } from '../helpers/store.ts'

const HOST = 'certs.example.com'
const ORIGIN = `https://${HOST}`
const RULES = [
  { people: 'anyone', names: ['*.a.test'], rights: ['read'] },
  { people: { groups: ['ops'] }, names: ['*'], rights: ['read', 'renew', 'revoke', 'delete'] },
  { effect: 'deny', names: ['secret.a.test'] },
]

/** The service behind a portal, with certificates for three names. */
async function setup(t: Test, { rules = RULES as readonly object[] } = {}) {
  const portal = await createIdp(t, () => NOW)
  const assertion = { issuerUrl: portal.issuerUrl, audience: ORIGIN }
  const running = await start(t, { auth: { psk: { key: KEY }, assertion }, rules })
  for (const domain of ['x.a.test', 'secret.a.test', 'y.b.test'])
    await running.call('POST', '/api/certificate', { domain })
  const person = (claims: object = {}) => portal.assertion({ aud: ORIGIN, ...claims })
  return { running, person }
}

interface Sent {
  readonly assertion?: string | undefined
  readonly body?: Record<string, string>
  readonly origin?: string | undefined
}

async function browse({ app }: Running, url: string, sent: Sent) {
  const { assertion, body } = sent
  const origin = 'origin' in sent ? sent.origin : ORIGIN
  const answer = await app.inject({
    method: body ? 'POST' : 'GET',
    url,
    headers: {
      host: HOST,
      ...(assertion !== undefined && { 'x-gatehouse-assertion': assertion }),
      ...(body && { 'content-type': 'application/x-www-form-urlencoded' }),
      ...(body && origin !== undefined && { origin }),
    },
    ...(body && { payload: `${new URLSearchParams(body)}` }),
  })
  return {
    status: answer.statusCode,
    text: answer.payload,
    location: answer.headers.location,
    names: [...answer.payload.matchAll(/<b>([^<]+)<\/b>/g)].map(([, name]) => name).toSorted(),
    actions: [...answer.payload.matchAll(/action=(\w+)/g)].map(([, action]) => action),
  }
}

const ops = { groups: ['ops'], name: 'Ada Lovelace' }

t.test('people see at the inventory what rules grant to them', async (t) => {
  const { running, person } = await setup(t)
  const cases: [who: string, claims: object, names: string[], actions: string[]][] = [
    ['anyone', {}, ['x.a.test'], []],
    [
      'a group',
      ops,
      ['x.a.test', 'y.b.test'],
      ['renew', 'revoke', 'delete', 'renew', 'revoke', 'delete'],
    ],
  ]
  for (const [who, claims, names, actions] of cases) {
    const seen = await browse(running, '/', { assertion: person(claims) })
    t.equal(seen.status, 200, who)
    t.strictSame(seen.names, names, who)
    t.strictSame(seen.actions, actions, who)
    t.notMatch(seen.text, 'Sign out', 'the portal has that')
  }
  t.match((await browse(running, '/', { assertion: person(ops) })).text, 'Ada Lovelace')
})

t.test('without a rule about people they see nothing', async (t) => {
  const { running, person } = await setup(t, { rules: [] })
  const seen = await browse(running, '/', { assertion: person(ops) })
  t.match(seen, { status: 200, names: [] })
})

t.test('without an assertion the page asks for a key, and a wrong one is refused', async (t) => {
  const { running, person } = await setup(t)
  t.match((await browse(running, '/', {})).text, 'name="key"')
  const wrong: [what: string, assertion: string][] = [
    ['of another app', person({ aud: 'https://other.example.com' })],
    ['of a program', person({ method: 'psk' })],
    ['too old', person({ iat: NOW / 1_000 - 90, exp: NOW / 1_000 - 30 })],
    ['no JWT', 'ada'],
  ]
  for (const [what, assertion] of wrong) {
    const seen = await browse(running, '/', { assertion })
    t.match(seen, { status: 401, names: [] }, what)
    t.match(seen.text, 'The assertion is not valid', what)
  }
})

t.test('who may, acts, and the audit trail has the name', async (t) => {
  const { running, person } = await setup(t)
  const assertion = person(ops)
  const asked = await browse(running, '/confirm?action=revoke&domain=x.a.test', { assertion })
  t.equal(asked.status, 200)
  t.match(asked.text, 'Revoke x.a.test?')
  t.match(asked.text, '<input type="hidden" name="domain" value="x.a.test">')

  const domain = 'x.a.test'
  const revoked = await browse(running, '/confirm', {
    assertion,
    body: { action: 'revoke', domain },
  })
  t.match(revoked, { status: 303, location: '/?q=x.a.test' })
  t.strictSame((await browse(running, '/', { assertion })).names, ['y.b.test'])

  const due = newCertificate({ names: ['due.b.test'], renewAt: NOW - DAY })
  await running.service.store.addCertificate(due, newAudit())
  const renewed = await browse(running, '/confirm', {
    assertion,
    body: { action: 'renew', domain: 'due.b.test' },
  })
  t.equal(renewed.status, 303)
  const early = await browse(running, '/confirm', {
    assertion,
    body: { action: 'renew', domain: 'y.b.test' },
  })
  t.match(early, { status: 429, text: /not due for renewal/ }, 'not before it is due')
  const deleted = await browse(running, '/confirm', {
    assertion,
    body: { action: 'delete', domain: 'y.b.test' },
  })
  t.equal(deleted.status, 303)

  const rows = await running.service.store.listAudit({ limit: 100 })
  const done = rows
    .filter(({ actor }) => actor === 'person:corp:42')
    .map(({ action, names }) => `${action} ${names}`)
  t.strictSame(done.toSorted(), ['delete y.b.test', 'renew due.b.test', 'revoke x.a.test'])
})

t.test('who may not, does not act', async (t) => {
  const { running, person } = await setup(t)
  const body = { action: 'revoke', domain: 'x.a.test' }
  const assertion = person(ops)
  const cases: [what: string, sent: Sent, status: number][] = [
    ['nobody', { body }, 401],
    ['somebody who may only see', { body, assertion: person() }, 403],
    ['a form of another site', { body, assertion, origin: 'https://evil.test' }, 403],
    ['a form without an origin', { body, assertion, origin: undefined }, 403],
    ['a denied name', { body: { ...body, domain: 'secret.a.test' }, assertion }, 403],
    ['another action', { body: { ...body, action: 'issue' }, assertion }, 400],
    ['no name', { body: { ...body, domain: '' }, assertion }, 400],
  ]
  for (const [what, sent, status] of cases)
    t.equal((await browse(running, '/confirm', sent)).status, status, what)
  const asked = await browse(running, '/confirm?action=revoke&domain=x.a.test', {
    assertion: person(),
  })
  t.equal(asked.status, 403, 'nor is asked')
  t.equal((await browse(running, '/', { assertion })).names.length, 2)

  const entered = await running.app.inject({
    method: 'POST',
    url: '/',
    headers: { host: HOST, origin: ORIGIN, 'content-type': 'application/x-www-form-urlencoded' },
    payload: `key=${KEY}`,
  })
  const cookie = String(entered.headers['set-cookie']).split(';', 1)[0] ?? ''
  const byKey = await running.app.inject({
    method: 'POST',
    url: '/confirm',
    headers: {
      ...{ host: HOST, origin: ORIGIN, cookie },
      'content-type': 'application/x-www-form-urlencoded',
    },
    payload: `${new URLSearchParams(body)}`,
  })
  t.equal(byKey.statusCode, 401, 'a key that was entered looks on')
})

t.test('an assertion is no access token', async (t) => {
  const { running, person } = await setup(t)
  for (const headers of [
    { authorization: `Bearer ${person(ops)}` },
    { authorization: '', 'x-gatehouse-assertion': person(ops) },
  ])
    t.equal((await running.call('GET', '/api/certificates', undefined, headers)).status, 401)
})
