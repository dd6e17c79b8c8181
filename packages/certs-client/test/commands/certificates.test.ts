import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { localTime, UsageError } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { actionFor } from '../../../../services/cert-service/src/errors.ts'
import { DAY, KEY, NOW, start } from '../../../../services/cert-service/test/helpers/app.ts'
import { newAudit, newCertificate, newOrder } from '../../../cert-store/test/helpers/store.ts'
import type { ClientCommand, CommandOptions, Io } from '../../src/commands/ask.ts'
import { list, order, remove, renew, revoke, show } from '../../src/commands/certificates.ts'

const IO = { env: {}, stderr: { write() {} }, actionFor }

/** Runs a command, and gives what it prints. */
async function print(
  command: ClientCommand,
  words: readonly string[],
  options: CommandOptions,
  io: Io = IO,
): Promise<string> {
  return (await Array.fromAsync(command(words, options, io))).join('')
}

/** The objects that a command prints, one in each line. */
async function printJson(...[command, words, options]: Parameters<typeof print>) {
  const lines = (await print(command, words, { ...options, json: true })).trimEnd().split('\n')
  return lines.map((line) => JSON.parse(line))
}

/** The commands against a service. */
async function stage(t: Test) {
  const { app, service, folder, clock, call } = await start(t)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const keyFile = join(folder, 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const options = { url: `http://localhost:${(app.server.address() as AddressInfo).port}`, keyFile }
  return { store: service.store, options, clock, call }
}

t.test('what fails is listed, with a certificate or without, the most urgent first', async (t) => {
  const { store, options } = await stage(t)
  t.match(await print(list, [], { ...options, failing: true }), /^Nothing is listed: /)
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
  const rows = (await print(list, [], { ...options, failing: true })).split('\n')
  const day = (count: number) => localTime(new Date(NOW + count * DAY).toISOString())
  const failed = `ACME_CAA      ${day(0)}`
  t.strictSame(rows.slice(0, 5), [
    'NAME             ISSUER  EXPIRES                    LAST FAILURE  FAILED AT                  NEXT TRY                   TO TRY NOW             ORDER',
    `soon.test        ca      ${day(6)}  ${failed}  ${day(6)}  renew soon.test --now  order-3`,
    `late.test        ca      ${day(7)}  ${failed}  ${day(7)}  renew late.test --now  order-2`,
    `next.test        ca      never issued               ${failed}  ${day(8)}  renew next.test --now  order-1`,
    `new.test         ca      never issued               ${failed}  ${day(9)}  renew new.test --now   order-0`,
  ])
  const orders = await printJson(list, [], { ...options, failing: true })
  t.equal(orders.length, 124)
  t.match(orders[0], { id: 'order-3', names: ['soon.test'], notAfter: '2030-01-07T00:00:00Z' })
  const other = await print(list, [], { ...options, failing: true, issuer: 'other' })
  t.match(other, /^Nothing is listed/)
})

t.test('what ends soon is listed, of an issuer, the most urgent first', async (t) => {
  const { store, options } = await stage(t)
  for (const [name, days, issuer] of [
    ...([
      ['late.test', 9, 'ca'],
      ['soon.test', 6, 'ca'],
      ['ended.test', 0, 'ca'],
    ] as const),
    ...([
      ['other.test', 6, 'acme'],
      ['next.test', 7, 'ca'],
    ] as const),
  ])
    await store.addCertificate(
      newCertificate({
        ...{ names: [name], issuer, requestKey: `${issuer}|server|p256|${name}` },
        notAfter: NOW + days * DAY,
      }),
      newAudit(),
    )
  // The client goes by its own clock.
  const ending = `${Math.round((NOW - Date.now()) / DAY) + 8}d`
  const named = async (more: object) =>
    (await printJson(list, [], { ...options, ...more })).map(({ domain }) => domain)
  t.strictSame(
    await named({}),
    ['late.test', 'soon.test', 'ended.test', 'other.test', 'next.test'],
    'the newest last',
  )
  t.strictSame(await named({ issuer: 'acme' }), ['other.test'])
  t.strictSame(await named({ ending, issuer: 'ca' }), ['ended.test', 'soon.test', 'next.test'])
  t.match(await print(list, [], { ...options, ending }), /^NAME .*\nended\.test /)
  const wrong: [object, RegExp][] = [
    [{ ending: '1y' }, /^--ending is a duration such as 7d or 12h$/],
    [{ issuer: 'a b' }, /^--issuer is the name of an issuer/],
    [{ ending: '7d', failing: true }, /^--ending does not go with --failing/],
  ]
  for (const [more, message] of wrong)
    await t.rejects(named(more), Object.assign(new UsageError(), { message }))
})

t.test('a name that nobody has is refused with the nearest, and the others are done', async (t) => {
  const { options, call } = await stage(t)
  for (const domain of ['app.test', 'web.test', 'db.test'])
    await call('POST', '/api/certificate', { domain })
  const unknown = { code: 'CERT_NOT_FOUND', message: /; did you mean app\.test\?$/ }
  for (const command of [show, renew, revoke, remove])
    await t.rejects(print(command, ['ap.test'], options), unknown)
  await t.rejects(print(renew, ['ap.test'], { ...options, now: true }), { message: /app\.test\?$/ })
  await t.rejects(print(renew, ['app.test'], { ...options, now: true }), {
    code: 'CERT_ORDER_NOT_FOUND',
    message: /^(?!.*did you mean)/,
  })
  await t.rejects(print(show, ['elsewhere.test'], options), { message: /^(?!.*did you mean)/ })
  const shown = show(['web.test', 'ap.test', 'nobody.test', 'db.test', 'web.test'], options, IO)
  t.match((await shown.next()).value, /^names +web\.test\n/)
  t.match((await shown.next()).value, /^names +db\.test\n/)
  await t.rejects(shown.next(), {
    errors: [{ message: /^ap\.test: .*did you mean app\.test/ }, { message: /^nobody\.test: / }],
  })
  const gone = await printJson(remove, ['app.test', 'web.test'], options)
  t.strictSame(gone, [
    { domain: 'app.test', unconfirmed: [] },
    { domain: 'web.test', unconfirmed: [] },
  ])
  const notName = Object.assign(new UsageError(), { message: /^"a b"/ })
  await t.rejects(print(remove, ['db.test', 'a b'], options), notName)
  t.match(await print(show, ['db.test'], options), /db\.test/, 'nothing was done')
})

t.test('show says why a name has no certificate', async (t) => {
  const { store, options, call } = await stage(t)
  await t.rejects(print(show, ['a.test'], options), { code: 'CERT_NOT_FOUND' })
  const lastError = { code: 'ACME_CAA', detail: 'CAA refuses it', at: NOW }
  await store.saveOrder(
    newOrder({ requestKey: 'a', names: ['a.test'], status: 'failed', lastError, nextTryAt: NOW }),
  )
  const failed = localTime('2030-01-01T00:00:00Z')
  const story =
    `CAA refuses it (it failed at ${failed}; the next try is at ${failed}; ` +
    'when the cause is removed, try at once: gatehouse-certs renew a.test --now)'
  for (const json of [true, false])
    await t.rejects(print(show, ['a.test'], { ...options, json }), {
      code: 'ACME_CAA',
      message: `a.test has no certificate; the order order-1 fails: ${story}`,
      action: /CAA/,
    })
  await call('POST', '/api/certificate', { domain: 'a.test' })
  const text = await print(show, ['a.test'], options)
  t.ok(text.includes(`what is wrong  ${story} [ACME_CAA]\nwhat to do     `), text)
  t.ok((await print(order, ['order-1'], options)).includes(story))
  const [shown] = await printJson(show, ['a.test'], options)
  t.match(shown, { lastFailure: { code: 'ACME_CAA' }, nextTryAt: '2030-01-01T00:00:00Z' })
})

t.test('renew asks ACME clients, and says who never asks', async (t) => {
  const { store, options, clock } = await stage(t)
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
    (await print(renew, name ? [name] : [], { ...options, ...more })).trim().split('\n')
  t.match(await lines('', { caller: 'web', dryRun: true }), [
    /^1 would be renewed by the service until 2030/,
    /^2 ACME clients would be asked to renew/,
    /^m0\.test: lego\/4\.17 at 10\.1\.2\.3 never asks: restart it there/,
    /^m1/,
    /^m3\.test: an ACME client at 10\.1\.2\.3 has an account that has ended: have it make another one$/,
  ])
  t.match(await lines('m1.test', {}), [/^1 ACME clients are asked to renew/, /^m1/])
  t.match(await lines('m2.test', { spread: '2h' }), [/^1 renewed by the service until/])
  t.match(await printJson(renew, [], { ...options, caller: 'psk:web' }), [{ asked: 2 }])
  for (const [scope, expected] of [
    [{ issuer: 'ca' }, /^1 would be renewed/],
    [{ issuer: 'ca', keyType: 'p256', before: '2030-01-02T00:00:00Z' }, /^1 would be renewed/],
    [{ keyType: 'p384' }, 'no certificate that is in service and renewed fits'],
    [{ before: '2030-01-01T00:00:00Z' }, 'no certificate that is in service and renewed fits'],
    [{ before: '2030-01-01' }, 'no certificate that is in service and renewed fits'],
    [{ before: '2030-01-02' }, /^1 would be renewed/],
  ] as const)
    t.match((await lines('', { ...scope, dryRun: true }))[0], expected, JSON.stringify(scope))
  await t.rejects(print(renew, [], { ...options, keyType: 'p384' }), { code: 'CERT_NOT_FOUND' })
  await t.rejects(print(renew, [], { ...options, under: 'AB:CD' }), {
    code: 'CERT_NOT_FOUND',
    message: /^no root or intermediate of this CA has the key identifier or SHA-256 AB:CD: /,
  })
})

t.test('renew refuses options that are wrong, or do not go together', async (t) => {
  const under = 'ab'.repeat(20)
  for (const [name, options, message] of [
    ['', {}, /^renew needs NAME, --caller, --issuer,/],
    ['', { keyType: 'rsa1024' }, /^--key-type must be one of/],
    ['', { issuer: "let's encrypt" }, '--issuer is the name of an issuer, such as ca'],
    ['', { under: 'zz' }, '--under is a key identifier or SHA-256 in hexadecimal'],
    ['a.test', { spread: '1y' }, '--spread is a duration such as 24h or 7d'],
    ['', { before: '2027-02-30' }, /^--before must be a time such as 24h, /],
    ['', { under, now: true }, '--now does not go with --under'],
    ['', { under, wait: true }, '--wait does not go with --under'],
    ['a.test', { dryRun: true, wait: true }, '--wait does not go with --dry-run'],
    [
      'a.test',
      { keyType: 'p256', spread: '7d', dryRun: true, now: true, wait: true },
      '--now does not go with --key-type',
    ],
  ] as const)
    await t.rejects(
      print(renew, name ? [name] : [], { keyFile: '/nowhere', ...options }),
      Object.assign(new UsageError(), { message }),
      JSON.stringify(options),
    )
})

t.test('renew --now tries what has failed, whatever it waits for', async (t) => {
  const { store, options } = await stage(t)
  const now = { ...options, now: true }
  await t.rejects(print(renew, ['a.test'], now), { code: 'CERT_ORDER_NOT_FOUND' })
  const lastError = { code: 'ACME_CAA', detail: 'CAA refuses it', at: NOW }
  const requestKey = 'ca|server|p256|a.test'
  const failed = { requestKey, names: ['a.test'], status: 'failed', lastError } as const
  await store.saveOrder(newOrder({ ...failed, nextTryAt: NOW + DAY }))
  t.equal(await print(renew, ['a.test'], now), 'a.test has a new certificate\n')
  t.equal((await store.findByDomain('a.test')).length, 1)
})

t.test('several names at once, as text or as JSON', async (t) => {
  const { options, call, clock } = await stage(t)
  for (const domain of ['a.test', 'b.test', 'c.test'])
    await call('POST', '/api/certificate', { domain })
  clock.shift(4 * DAY)
  t.equal(await print(renew, ['a.test'], options), 'a.test has a new certificate\n')
  t.same(await printJson(renew, ['b.test', 'c.test'], options), [
    { domain: 'b.test', status: 'done' },
    { domain: 'c.test', status: 'done' },
  ])
  t.match(await print(remove, ['a.test'], options), /^a\.test is no longer answered/)
  t.match(await printJson(revoke, ['b.test', 'c.test'], options), [
    { domain: 'b.test', serialNumbers: [String, String] },
    { domain: 'c.test', serialNumbers: [String, String] },
  ])
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
  const io = { ...IO, stderr: { write: (text: string) => said.push(text) } }
  const { left, ...options } = await stageAnswers(t, answers)
  t.equal(
    await print(revoke, ['a.test'], options, io),
    'a.test a is revoked\na.test c is revoked\na.test d is revoked\nthe CA does not know d: it is revoked here only\n',
  )
  t.strictSame(left, [])
  t.match(said, ['1 revoked, 2 not: its CA has not been asked yet\n', /^2 revoked, 1 not/])
  const { left: _, ...refused } = await stageAnswers(t, [
    answers[0],
    [503, { code: 'ACME_SERVER_INTERNAL', detail: 'c could not be revoked: out of order' }],
  ])
  await t.rejects(print(revoke, ['a.test'], refused, io), { code: 'ACME_SERVER_INTERNAL' })
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
  const message = `a.test is not renewed: CAA refuses it (it failed at ${localTime(order.since)}`
  const how = 'when the cause is removed, try at once: gatehouse-certs renew a.test --now)'
  const expected = { code: 'ACME_CAA', action: lastError.action }
  const again = `${message}; the next try is at ${localTime(failed.nextTryAt)}; ${how}`
  await t.rejects(print(renew, ['a.test'], options), { ...expected, message: again })
  await t.rejects(print(renew, ['a.test'], options), {
    ...expected,
    message: `${message}; ${how}`,
  })
})
