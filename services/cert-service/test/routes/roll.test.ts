import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { DAY, type Running, start } from '../helpers/app.ts'

const roll = ({ call }: Running, action: string, more: object = {}) =>
  call('POST', '/api/ca/roll', { action, ...more })
const pemsOf = (pem: string) => pem.split(/(?<=-----END CERTIFICATE-----\n)/).filter(Boolean)
const subjectsOf = (pem: string) =>
  pemsOf(pem).map((part) => new X509Certificate(part).subject?.replace('CN=Gatehouse ', ''))
const A = 'Root CA'
const B = 'Root CA 2'
const SERVERS = 'Intermediate CA'
const CLIENTS = 'Client Intermediate CA'

/** What everybody can fetch: the roots, and the subjects of all that verifies clients. */
async function published({ app }: Running) {
  const paths = ['/ca/root.pem', '/ca/clients.pem']
  return Promise.all(paths.map(async (path) => subjectsOf((await app.inject(path)).body)))
}

t.test('from one root to the next, and back in between', async (t) => {
  const running = await start(t)
  const { call, clock } = running
  const issue = async (domain: string, more: object = {}) => {
    const { body } = await call('POST', '/api/certificate', { domain, ...more })
    return subjectsOf(body.certificate).slice(1)
  }
  t.match(await call('GET', '/api/ca/roll'), {
    status: 200,
    body: { stage: 'none', from: { subject: 'CN=Gatehouse Root CA' }, to: undefined },
  })
  await issue('ada@a.test', { profile: 'client' })
  t.strictSame(await published(running), [[A], [A, CLIENTS]])

  const begun = await roll(running, 'begin')
  t.match(begun, {
    status: 200,
    body: {
      stage: 'begun',
      to: { subject: 'CN=Gatehouse Root CA 2' },
      inForce: { total: 1, names: ['ada@a.test'] },
      next: { action: 'use', from: '2030-01-15T00:00:00Z' },
    },
  })
  const both = [A, B, CLIENTS, CLIENTS]
  t.strictSame(await published(running), [[A, B], both])
  t.strictSame(await issue('b.test'), [SERVERS], 'the root of before signs')
  t.match(await roll(running, 'use'), {
    status: 409,
    body: { code: 'CERT_ROLL_TOO_SOON', detail: 'it is possible from 2030-01-15T00:00:00Z' },
  })

  await clock.advance(14 * DAY)
  t.match((await roll(running, 'use')).body, { stage: 'used', usedAt: '2030-01-15T00:00:00Z' })
  const used = [B, A, CLIENTS, CLIENTS]
  t.strictSame(await published(running), [[B, A], used])
  t.strictSame(await issue('c.test'), [SERVERS, B], 'with the cross certificate')
  t.strictSame(await issue('bob@a.test', { profile: 'client' }), [CLIENTS, B])
  t.strictSame((await roll(running, 'back')).body.stage, 'begun')
  t.strictSame(await issue('d.test'), [SERVERS])
  t.strictSame(await published(running), [[A, B], both])

  await roll(running, 'use')
  t.match(await roll(running, 'finish'), {
    status: 409,
    body: {
      code: 'CERT_ROLL_TOO_SOON',
      detail:
        'it is possible from 2030-02-14T00:00:00Z; 1 certificates below the old root are in force, ' +
        'until 2030-01-22T00:00:00Z, such as d.test',
    },
  })
  await clock.advance(30 * DAY)
  t.match((await roll(running, 'finish', { forgetKey: true })).body, {
    stage: 'finished',
    inForce: { total: 0 },
  })
  t.strictSame(await published(running), [[B], [B, CLIENTS]])
  t.strictSame(await issue('e.test'), [SERVERS, B], 'the cross certificate goes on')
  const rows = await running.service.store.listAuthorities()
  const roots = rows.filter(({ role }) => role === 'root')
  t.strictSame(
    roots.map(({ sealedKey }) => sealedKey !== null),
    [true, false],
    'the key of the root of before is gone',
  )
  const audit = await running.service.store.listAudit({ limit: 100 })
  t.strictSame(
    audit.flatMap(({ action, detail }) => (action === 'ca-roll' ? detail?.split(':')[0] : [])),
    ['finish', 'use', 'back', 'use', 'begin'],
  )
})
