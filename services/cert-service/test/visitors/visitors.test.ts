import t, { type Test } from 'tap'
import { newAudit, newCertificate } from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, KEY, NOW, type Running } from '../helpers/app.ts'
import { behindPortal, HOST, ORIGIN, browse as open, type Sent } from '../helpers/browse.ts'

const RULES = [
  { people: 'anyone', names: ['*.a.test'], rights: ['read'] },
  { people: { groups: ['ops'] }, names: ['*'], rights: ['read', 'renew', 'revoke', 'delete'] },
  { effect: 'deny', names: ['secret.a.test'] },
]

/** The service behind a portal, with certificates for three names. */
async function setup(t: Test, { rules = RULES as readonly object[] } = {}) {
  const { running, person } = await behindPortal(t, { rules })
  for (const domain of ['x.a.test', 'secret.a.test', 'y.b.test'])
    await running.call('POST', '/api/certificate', { domain })
  return { running, person }
}

async function browse(running: Running, url: string, sent: Sent) {
  const seen = await open(running, url, sent)
  const all = (pattern: RegExp) => [...seen.text.matchAll(pattern)].map(([, found]) => found)
  return {
    ...seen,
    names: all(/<b title="[^"]*">([^<]+)<\/b>/g).toSorted(),
    actions: all(/href="\/certificates\/[^/"]+\/(renew|revoke|delete|dry-run)"/g),
  }
}

const ops = { groups: ['ops'], name: 'Ada Lovelace' }

t.test('people see at the inventory what rules grant to them', async (t) => {
  const { running, person } = await setup(t)
  const cases: [who: string, claims: object, names: string[], actions: string[]][] = [
    ['anyone', {}, ['x.a.test'], []],
    ['a group', ops, ['x.a.test', 'y.b.test'], ['renew', 'revoke', 'delete']],
  ]
  for (const [who, claims, names, actions] of cases) {
    const seen = await browse(running, '/', { assertion: person(claims) })
    t.equal(seen.status, 200, who)
    t.strictSame(seen.names, names, who)
    const details = await browse(running, '/certificates/x.a.test', { assertion: person(claims) })
    t.equal(details.status, 200, who)
    t.strictSame(details.actions, actions, who)
    t.match(seen.text, '/account"><bdi>', who)
    t.match(
      seen.text,
      /\/logout\?rd=https?%3A%2F%2Fcerts\.example\.com%2F">Sign out<\/a>/,
      'the portal does that',
    )
  }
  t.match((await browse(running, '/', { assertion: person(ops) })).text, 'Ada Lovelace')
})

const OF_OPS = { people: { groups: ['ops'] }, names: ['*.a.test'] }
const CLOSED = /You may not see any certificates Ask whoever runs this service for a rule/
const BUTTON = 'href="/request"'

t.test(
  'a person with few rights is told the truth, and offered nothing that would be refused',
  async (t) => {
    const cases: [
      why: string,
      rules: object[],
      claims: object,
      said: RegExp[],
      isRequesting: boolean,
    ][] = [
      [
        'no rules',
        [],
        ops,
        [CLOSED, /It knows you as Ada Lovelace , with these groups: ops /],
        false,
      ],
      ['no groups', [OF_OPS], {}, [CLOSED, /It knows you as \S+ , with these groups: – /], false],
      ['all is denied', [OF_OPS, { effect: 'deny', names: ['*'] }], ops, [CLOSED], false],
      ['only requests', [{ ...OF_OPS, rights: ['issue'] }], ops, [CLOSED], true],
      [
        'some names',
        [OF_OPS],
        ops,
        [/You see the certificates for \*\.a\.test \. For others, ask whoever runs this service\./],
        true,
      ],
      [
        'names without certificates',
        [{ ...OF_OPS, names: ['b.c.test'], rights: ['read'] }],
        ops,
        [/No certificates that you may see yet/, /You see the certificates for b\.c\.test/],
        false,
      ],
    ]
    for (const [why, rules, claims, said, isRequesting] of cases)
      await t.test(why, async (t) => {
        const { running, person } = await setup(t, { rules })
        const assertion = person(claims)
        const seen = await browse(running, '/', { assertion })
        for (const sentence of said) t.match(seen.said, sentence)
        t.equal(seen.text.includes(BUTTON), isRequesting)
        const form = await browse(running, '/request', { assertion })
        t.equal(form.status, isRequesting ? 200 : 403)
        if (!isRequesting)
          t.match(
            form.said,
            /You may not request certificates\. Ask whoever runs this service for a rule/,
          )
      })
  },
)

t.test('what people are told of names that they may not see depends on rules alone', async (t) => {
  const { running, person } = await setup(t, { rules: [{ ...OF_OPS, rights: ['read'] }] })
  const empty = await behindPortal(t, { rules: [{ ...OF_OPS, rights: ['read'] }] })
  for (const name of ['x.a.test', 'secret.a.test'])
    await running.call('DELETE', `/api/certificate/${name}`)
  for (const url of [
    '/',
    '/?q=y.b.test',
    '/?q=y.b',
    '/?state=renews',
    '/?order=expiry',
    '/?issuer=ca',
  ]) {
    const [one, other] = [
      await browse(running, url, { assertion: person(ops) }),
      await browse(empty.running, url, { assertion: empty.person(ops) }),
    ]
    const portals = /http:\/\/(127\.0\.0\.1|localhost):\d+/g
    t.equal(one.text.replaceAll(portals, ''), other.text.replaceAll(portals, ''), url)
  }
  const searched = await browse(running, '/?q=y.b.test', { assertion: person(ops) })
  t.match(
    searched.said,
    /You may not see certificates for y\.b\.test \. Ask whoever runs this service/,
  )
  t.notMatch(searched.text, '/request?', 'which would be refused')
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
    t.match(seen, { status: 401, names: { length: 0 } }, what)
    t.match(seen.text, 'The assertion is not valid', what)
  }
})

t.test('who may, acts, and the audit trail has the name', async (t) => {
  const { running, person } = await setup(t)
  const assertion = person(ops)
  const asked = await browse(running, '/certificates/x.a.test/revoke', { assertion })
  t.equal(asked.status, 200)
  t.match(asked.text, 'Revoke x.a.test?')
  t.match(asked.text, '<form method="post" action="/certificates/x.a.test/revoke">')

  const revoked = await browse(running, '/certificates/x.a.test/revoke', {
    assertion,
    body: { reason: 'superseded' },
  })
  t.match(revoked, { status: 303, location: '/certificates/x.a.test' })
  t.strictSame((await browse(running, '/', { assertion })).names, ['y.b.test'])

  const due = newCertificate({ names: ['due.b.test'], renewAt: NOW - DAY })
  await running.service.store.addCertificate(due, newAudit())
  const renewed = await browse(running, '/certificates/due.b.test/renew', { assertion, body: {} })
  t.equal(renewed.status, 303)
  const early = await browse(running, '/certificates/y.b.test/renew', { assertion, body: {} })
  t.match(early, { status: 429, text: /not due for renewal/ }, 'not before it is due')
  const deleted = await browse(running, '/certificates/y.b.test/delete', { assertion, body: {} })
  t.equal(deleted.status, 303)

  const rows = await running.service.store.listAudit({ limit: 100 })
  const done = rows
    .filter(({ actor }) => actor === 'person:corp:42')
    .map(({ action, names }) => `${action} ${names}`)
  t.strictSame(done.toSorted(), ['delete y.b.test', 'renew due.b.test', 'revoke x.a.test'])
})

t.test('who may not, does not act', async (t) => {
  const { running, person } = await setup(t)
  const body = { reason: 'unspecified' }
  const assertion = person(ops)
  const url = '/certificates/x.a.test/revoke'
  const cases: [what: string, url: string, sent: Sent, status: number][] = [
    ['nobody', url, { body }, 401],
    ['somebody who may only see', url, { body, assertion: person() }, 403],
    ['a form of another site', url, { body, assertion, origin: 'https://evil.test' }, 403],
    ['a form without an origin', url, { body, assertion, origin: undefined }, 403],
    ['a denied name', '/certificates/secret.a.test/revoke', { body, assertion }, 403],
    ['an unknown name', '/certificates/none.b.test/revoke', { body, assertion }, 404],
    ['another action', '/certificates/x.a.test/issue', { body, assertion }, 405],
    ['no reason of RFC 5280', url, { body: { reason: 'boredom' }, assertion }, 400],
    ['another member', url, { body: { domain: 'y.b.test' }, assertion }, 400],
    ['no name', '/certificates/not%20a%20name/revoke', { body, assertion }, 400],
  ]
  for (const [what, url, sent, status] of cases)
    t.equal((await browse(running, url, sent)).status, status, what)
  const asked = await browse(running, url, { assertion: person() })
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
    url,
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
