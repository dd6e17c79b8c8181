import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { UsageError } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { actionFor } from '../../../../services/cert-service/src/errors.ts'
import { DAY, KEY, NOW, start } from '../../../../services/cert-service/test/helpers/app.ts'
import { newAudit, newCertificate, newOrder } from '../../../cert-store/test/helpers/store.ts'
import { list, remove, renew, revoke, show } from '../../src/commands/certificates.ts'

const IO = { env: {}, stderr: { write() {} }, actionFor }

/** The commands against a service; `isTTY` is whether a person reads what they print. */
async function stage(t: Test) {
  const { app, service, folder, clock } = await start(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const keyFile = join(folder, 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const options = { url: `http://localhost:${(app.server.address() as AddressInfo).port}`, keyFile }
  const io = (isTTY: boolean) => ({ ...IO, stdout: { isTTY } })
  return { store: service.store, options, io, clock }
}

t.test('what fails is listed, with a certificate or without, the most urgent first', async (t) => {
  const { store, options, io } = await stage(t)
  t.equal(
    await list('', { ...options, failing: true }, io(true)),
    'Nothing fails that you may see.\n',
  )
  for (const [n, name] of ['new.test', 'next.test', 'late.test', 'soon.test'].entries()) {
    const requestKey = `ca|server|p256|${name}`
    if (n > 1)
      await store.addCertificate(
        newCertificate({ names: [name], notAfter: NOW + (9 - n) * DAY }),
        newAudit(),
      )
    const lastError = { code: 'ACME_CAA', detail: 'CAA refuses it', at: NOW }
    const failed = { id: `order-${n}`, status: 'failed', nextTryAt: NOW + (9 - n) * DAY } as const
    await store.saveOrder(newOrder({ ...failed, requestKey, names: [name], lastError }))
  }
  // Several pages of the API.
  for (let n = 0; n < 120; n += 1)
    await store.saveOrder(
      newOrder({
        id: `more-${n}`,
        requestKey: `more ${n}`,
        status: 'failed',
        nextTryAt: NOW + 99 * DAY,
      }),
    )
  const rows = (await list('', { ...options, failing: true }, io(true))).split('\n')
  t.strictSame(rows.slice(0, 5), [
    'NAME             ISSUER  EXPIRES           NEXT TRY          LAST FAILURE  FAILED AT         ORDER',
    'soon.test        ca      2030-01-07 00:00  2030-01-07 00:00  ACME_CAA      2030-01-01 00:00  order-3',
    'late.test        ca      2030-01-08 00:00  2030-01-08 00:00  ACME_CAA      2030-01-01 00:00  order-2',
    'next.test        ca      never issued      2030-01-09 00:00  ACME_CAA      2030-01-01 00:00  order-1',
    'new.test         ca      never issued      2030-01-10 00:00  ACME_CAA      2030-01-01 00:00  order-0',
  ])
  const orders = JSON.parse(await list('', { ...options, failing: true }, io(false)))
  t.equal(orders.length, 124)
  t.match(orders[0], { id: 'order-3', names: ['soon.test'], notAfter: '2030-01-07T00:00:00Z' })
})

t.test('show says why a name has no certificate', async (t) => {
  const { store, options, io } = await stage(t)
  await t.rejects(show('a.test', options, io(true)), { code: 'CERT_NOT_FOUND' })
  const lastError = { code: 'ACME_CAA', detail: 'CAA refuses it', at: NOW }
  await store.saveOrder(
    newOrder({ requestKey: 'a', names: ['a.test'], status: 'failed', lastError, nextTryAt: NOW }),
  )
  for (const isTTY of [true, false])
    await t.rejects(show('a.test', options, io(isTTY)), {
      code: 'ACME_CAA',
      message:
        'a.test has no certificate; the order order-1 fails: CAA refuses it (it failed at 2030-01-01T00:00:00Z; ' +
        'the next try is at 2030-01-01T00:00:00Z; when the cause is removed, try at once: gatehouse-certs renew a.test --now)',
      action: /CAA/,
    })
})

t.test('renew asks ACME clients, and says who never asks', async (t) => {
  const { store, options, io, clock } = await stage(t)
  const origin = { way: 'acme', account: 'a', client: 'lego/4.17', address: '10.1.2.3' } as const
  const asked = { askedBy: 'psk:web', notAfter: NOW + 60 * DAY, renewAt: NOW + 40 * DAY }
  const account = {
    ...{
      id: 'a',
      caller: null,
      boundBy: null,
      thumbprint: 'a',
      jwk: '{}',
      status: 'valid' as const,
    },
    ...{ contact: [], client: null, remoteAddress: null, createdAt: NOW, usedAt: NOW },
  }
  await store.acme.addAccount(account, newAudit())
  const ofEnded = { ...origin, account: 'b', client: null }
  for (const [n, more] of [origin, origin, {}, ofEnded].entries())
    await store.addCertificate(
      newCertificate({ names: [`m${n}.test`], ...asked, ...more }),
      newAudit(),
    )
  clock.shift(2 * DAY)
  const lines = async (name: string, more: object) =>
    (await renew(name, { ...options, ...more }, io(true))).trim().split('\n')
  t.match(await lines('', { caller: 'web', dryRun: true }), [
    /^1 would be renewed by the service until 2030/,
    /^2 ACME clients would be asked to renew/,
    /^m0\.test: lego\/4\.17 at 10\.1\.2\.3 never asks: restart it there/,
    /^m1/,
    /^m3\.test: an ACME client at 10\.1\.2\.3 has an account that has ended: have it make another one$/,
  ])
  t.match(await lines('m1.test', {}), [/^1 ACME clients are asked to renew/, /^m1/])
  t.match(await lines('m2.test', { spread: '2h' }), [/^1 renewed by the service until/])
  t.match(JSON.parse(await renew('', { ...options, caller: 'psk:web' }, io(false))), { asked: 2 })
  for (const [scope, expected] of [
    [{ issuedBy: 'ca' }, /^1 would be renewed/],
    [{ issuedBy: 'ca', keyType: 'p256', before: '2030-01-02T00:00:00Z' }, /^1 would be renewed/],
    [{ keyType: 'p384' }, 'no certificate that is in service and renewed fits'],
    [{ before: '2030-01-01T00:00:00Z' }, 'no certificate that is in service and renewed fits'],
    [{ before: '2030-01-01' }, 'no certificate that is in service and renewed fits'],
    [{ before: '2030-01-02' }, /^1 would be renewed/],
  ] as const)
    t.match((await lines('', { ...scope, dryRun: true }))[0], expected, JSON.stringify(scope))
  await t.rejects(renew('', { ...options, keyType: 'p384' }, io(true)), { code: 'CERT_NOT_FOUND' })
  await t.rejects(renew('', { ...options, under: 'AB:CD' }, io(true)), {
    code: 'CERT_NOT_FOUND',
    message: /^no root or intermediate of this CA has the key identifier or SHA-256 AB:CD: /,
  })
})

t.test('renew refuses options that are wrong, or do not go together', async (t) => {
  const under = 'ab'.repeat(20)
  for (const [name, options, message] of [
    ['', {}, /^renew needs NAME, --caller, --issued-by,/],
    ['', { keyType: 'rsa1024' }, /^--key-type is one of/],
    ['', { issuedBy: "let's encrypt" }, '--issued-by is the name of an issuer, such as ca'],
    ['', { under: 'zz' }, '--under is a key identifier or SHA-256 in hexadecimal'],
    ['a.test', { spread: '1y' }, '--spread is a duration such as 24h or 7d'],
    ['', { before: '2027-02-30' }, /^--before is a day or time such as 2027-01-31 or /],
    ['', { under, now: true }, '--now does not go with --under'],
    ['', { under, wait: true }, '--wait does not go with --under'],
    ['a.test', { dryRun: true, wait: true }, '--wait does not go with --dry-run'],
    [
      'a.test',
      { keyType: 'p256', spread: '7d', dryRun: true, now: true, wait: true },
      '--now does not go with --key-type',
    ],
  ] as const)
    t.throws(
      () => renew(name, { keyFile: '/nowhere', ...options }, { ...IO, stdout: {} }),
      Object.assign(new UsageError(), { message }),
      JSON.stringify(options),
    )
})

t.test('renew --now tries what has failed, whatever it waits for', async (t) => {
  const { store, options, io } = await stage(t)
  const now = { ...options, now: true }
  await t.rejects(renew('a.test', now, io(true)), { code: 'CERT_ORDER_NOT_FOUND' })
  const lastError = { code: 'ACME_CAA', detail: 'CAA refuses it', at: NOW }
  const requestKey = 'ca|server|p256|a.test'
  const failed = { requestKey, names: ['a.test'], status: 'failed', lastError } as const
  await store.saveOrder(newOrder({ ...failed, nextTryAt: NOW + DAY }))
  t.equal(await renew('a.test', now, io(true)), 'a.test has a new certificate\n')
  t.equal((await store.findByDomain('a.test')).length, 1)
})

t.test('text is for people, and JSON for everything else', async (t) => {
  const running = await start(t)
  await running.app.listen({ port: 0, host: '127.0.0.1' })
  const keyFile = join(running.folder, 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const { port } = running.app.server.address() as AddressInfo
  const options = { url: `http://127.0.0.1:${port}`, keyFile }
  const people = { ...IO, stdout: { isTTY: true } }
  const program = { ...people, stdout: {} }
  for (const domain of ['a.test', 'b.test', 'c.test'])
    await running.call('POST', '/api/certificate', { domain })
  running.clock.shift(4 * DAY)

  t.equal(await renew('a.test', options, people), 'a.test has a new certificate\n')
  t.same(JSON.parse(await renew('b.test', options, program)), { domain: 'b.test', status: 'done' })
  t.match(await remove('a.test', options, people), /^a\.test is no longer answered/)
  t.same(JSON.parse(await remove('b.test', options, program)), {
    domain: 'b.test',
    unconfirmed: [],
  })
  t.same(JSON.parse(await remove('c.test', { ...options, json: true }, people)).domain, 'c.test')
})

/** A service that gives these answers, one after the other. */
async function stageAnswers(
  t: Test,
  answers: readonly (readonly [status: number, body: object])[],
) {
  const left = [...answers]
  const server = createServer((_request, response) => {
    const [status = 500, body = {}] = left.shift() ?? []
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const keyFile = join(testFolder(t), 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, keyFile, left }
}

t.test('revoke goes on until no certificate waits for its CA', async (t) => {
  const notRevoked = ['c', 'd'].map((serialNumber) => {
    return { serialNumber, issuer: 'acme', detail: 'its CA has not been asked yet' }
  })
  const answers = [
    [202, { serialNumbers: ['a'], notRevoked }],
    [202, { serialNumbers: ['c'], notRevoked: notRevoked.slice(1) }],
    [200, { serialNumbers: ['d'], unknownAtCa: ['d'] }],
  ] as const
  const said: string[] = []
  const io = {
    ...IO,
    stdout: { isTTY: true },
    stderr: { write: (text: string) => said.push(text) },
  }
  const { left, ...options } = await stageAnswers(t, answers)
  t.equal(
    await revoke('a.test', options, io),
    'a.test a is revoked\na.test c is revoked\na.test d is revoked\nthe CA does not know d: it is revoked here only\n',
  )
  t.strictSame(left, [])
  t.match(said, ['1 revoked, 2 not: its CA has not been asked yet\n', /^2 revoked, 1 not/])
  const { left: _, ...refused } = await stageAnswers(t, [
    answers[0],
    [503, { code: 'ACME_SERVER_INTERNAL', detail: 'c could not be revoked: out of order' }],
  ])
  await t.rejects(revoke('a.test', refused, io), { code: 'ACME_SERVER_INTERNAL' })
})

t.test('renew says why an order has failed, and when it is tried again', async (t) => {
  const order = { id: 'order-1', step: 'asked', since: '2030-01-01T00:00:00Z', names: ['a.test'] }
  const lastError = {
    code: 'ACME_CAA',
    detail: 'CAA refuses it',
    action: 'Change the CAA record.',
    failedAt: '2030-01-01T00:00:00Z',
  }
  const failed = { ...order, status: 'failed', lastError, nextTryAt: '2030-01-01T01:00:00Z' }
  const { left: _, ...options } = await stageAnswers(t, [
    [202, failed],
    [202, { ...failed, nextTryAt: undefined }],
  ])
  const io = { ...IO, stdout: { isTTY: true } }
  const message = 'a.test is not renewed: CAA refuses it (it failed at 2030-01-01T00:00:00Z'
  const how = 'when the cause is removed, try at once: gatehouse-certs renew a.test --now)'
  const expected = { code: 'ACME_CAA', action: lastError.action }
  const again = `${message}; the next try is at 2030-01-01T01:00:00Z; ${how}`
  await t.rejects(renew('a.test', options, io), { ...expected, message: again })
  await t.rejects(renew('a.test', options, io), { ...expected, message: `${message}; ${how}` })
})
