import { toTime } from '@gatehouse/issuance/times'
import { parseCertificate } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, NOW } from '../helpers/app.ts'

const OLDER = new Date(NOW + DAY / 2).toISOString()
const colons = (identifier: string) => identifier.toUpperCase().replace(/..(?=.)/g, '$&:')

/** A service with a certificate of each kind: one of them younger, one of a client of ACME. */
async function stage(t: Test) {
  const running = await startAcme(t)
  const { call, clock, client, service } = running
  const issue = async (domain: string, more: object = {}) =>
    t.equal((await call('POST', '/api/certificate', { domain, ...more })).status, 200, domain)
  await client.obtain(['app.example.com'])
  await issue('a.example.com')
  await issue('b.example.com', { keyType: 'rsa2048' })
  await issue('ada@example.com', { profile: 'client' })
  await clock.advance(DAY)
  await issue('c.example.com', { keyType: 'p384' })
  const { ca } = service
  const [clients] = await ca.clientIntermediates()
  const ids = (der: Uint8Array) => {
    const { skid = '', fingerprint256 } = parseCertificate(der)
    return { skid, sha256: fingerprint256 }
  }
  const of = {
    root: ids(ca.root()!),
    servers: ids(ca.intermediate().certificate),
    clients: ids(clients!),
  }
  const renew = (body: object, headers: object = {}) =>
    call('POST', '/api/certificates/renew', body, headers)
  /** How many are renewed here, and how many clients are asked. */
  const count = async (body: object) => {
    const { status, text, body: answer } = await renew({ ...body, dryRun: true })
    t.equal(status, 200, text)
    return [answer.renewing, answer.asked]
  }
  return { ...running, of, ids, issue, renew, count }
}

t.test('what each filter reaches, alone and with others', async (t) => {
  const { of, count, renew, service } = await stage(t)
  for (const [body, expected] of [
    [{ issuer: 'ca' }, [3, 1]],
    [{ issuer: 'ca-client' }, [1, 0]],
    [{ issuer: 'nobody' }, [0, 0]],
    [{ keyType: 'p256' }, [2, 1]],
    [{ keyType: 'rsa2048' }, [1, 0]],
    [{ keyType: 'rsa4096' }, [0, 0]],
    [{ before: OLDER }, [3, 1]],
    [{ before: new Date(NOW).toISOString() }, [0, 0]],
    [{ before: '2030-01-01T13:00:00+01:00' }, [3, 1]],
    [{ under: of.root.skid }, [4, 1]],
    [{ under: of.root.sha256 }, [4, 1]],
    [{ under: of.servers.skid }, [3, 1]],
    [{ under: colons(of.servers.sha256) }, [3, 1]],
    [{ under: of.clients.skid }, [1, 0]],
    [{ under: of.clients.skid, issuer: 'ca' }, [0, 0]],
    [{ caller: 'operator' }, [4, 0]],
    [{ caller: 'web', under: of.servers.skid }, [0, 1]],
    [{ issuer: 'ca', before: OLDER }, [2, 1]],
    [{ issuer: 'ca', keyType: 'p256', before: OLDER, under: of.root.skid }, [1, 1]],
    [{ domain: 'c.example.com', keyType: 'p384', caller: 'operator' }, [1, 0]],
    [{ domain: 'c.example.com', before: OLDER }, [0, 0]],
    [{ domain: 'ada@example.com', profile: 'client', under: of.clients.skid }, [1, 0]],
  ] as const)
    t.strictSame(await count(body), expected, JSON.stringify(body))
  const actions = (await service.store.listAudit({ limit: 100 })).map(({ action }) => action)
  t.notOk(actions.includes('request-renewal'), 'a dry run changes nothing')
  t.match(await renew({ issuer: 'nobody' }), {
    status: 404,
    body: { code: 'CERT_NOT_FOUND', detail: 'no certificate that is in service and renewed fits' },
  })
})

t.test('by the one who has signed it, not by where a cross certificate leads', async (t) => {
  const { call, of, ids, issue, count, service } = await stage(t)
  await call('POST', '/api/ca/roll', { action: 'begin' })
  await call('POST', '/api/ca/roll', { action: 'use', now: true })
  await issue('d.example.com')
  const next = ids(service.ca.root()!)
  t.strictSame(await count({ under: of.root.skid }), [4, 1])
  t.strictSame(await count({ under: next.skid }), [1, 0])
  t.strictSame(await count({ under: ids(service.ca.intermediate().certificate).sha256 }), [1, 0])
  await call('POST', '/api/ca/roll', { action: 'back' })
  t.strictSame(await count({ under: next.skid }), [1, 0], 'whatever signs now')
})

t.test('ours begin within the time, and the others are asked within it', async (t) => {
  const { of, renew, clock, service } = await stage(t)
  const list = () => service.store.list({ after: 0, limit: 100 })
  const before = await list()
  const [start, end] = [clock.now(), clock.now() + DAY / 2]
  t.match(await renew({ under: of.root.skid, before: OLDER, spread: '12h' }), {
    body: { renewing: 3, asked: 1, until: toTime(end) },
  })
  for (const { id, names, account, renewAt, renewalRequestedAt } of await list()) {
    const [name = ''] = names
    const time = (account ? renewalRequestedAt : renewAt) ?? 0
    if (name !== 'c.example.com') t.ok(time >= start && time <= end, name)
    else t.equal(renewAt, before.find((record) => record.id === id)?.renewAt, name)
  }
})

t.test('what is issued meanwhile is not taken again', async (t) => {
  const { of, renew, clock, issue, service } = await stage(t)
  const { listInService } = service.store
  let pages = 0
  service.store.listInService = async (...query) => {
    const page = await listInService(...query)
    pages += 1
    await clock.advance(1)
    if (pages <= 2) await issue(`page-${pages}.example.com`)
    return page
  }
  const { body } = await renew({ under: of.root.skid, before: '2999-01-01T00:00:00Z' })
  t.match(body, { renewing: 4, asked: 1 })
  t.equal(pages, 2)
})

t.test('what is refused, and where', async (t) => {
  const { renew, of } = await stage(t)
  const at = (pointer: string, detail?: RegExp) => ({
    errors: [{ pointer, ...(detail && { detail }) }],
  })
  for (const [body, status, problem] of [
    [{ under: 'beef' }, 404, { code: 'CERT_NOT_FOUND', ...at('/under', /ca roll status/) }],
    [{ under: of.root.skid.slice(2) }, 404, at('/under')],
    [{ under: 'the root' }, 400, at('/under')],
    [{ under: '' }, 400, at('/under')],
    [{ keyType: 'rsa1024' }, 400, at('/keyType')],
    [{ before: 'yesterday' }, 400, at('/before')],
    [{ before: '2030-01-31' }, 400, at('/before')],
    [{ before: '2016-12-31T23:59:60Z' }, 400, at('/before')],
    [{ issuer: 'x'.repeat(65) }, 400, at('/issuer')],
    [{ issuer: 'c\0a' }, 400, at('/issuer')],
    [{ issuedBy: 'ca' }, 400, {}],
    [{ dryRun: true, spread: '7d' }, 400, {}],
  ] as const) {
    const answer = await renew(body)
    t.match(answer, { status, body: problem }, JSON.stringify(body))
  }
  const web = { authorization: 'APIKey a-key-of-the-web-servers' }
  t.match(await renew({ under: of.root.skid }, web), {
    status: 403,
    body: {
      code: 'CERT_NAME_NOT_ALLOWED',
      detail: 'only an operator may do this',
      action: /without `domains`/,
    },
  })
})
