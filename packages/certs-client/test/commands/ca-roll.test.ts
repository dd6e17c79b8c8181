import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { localTime } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { caRoll } from '../../src/commands/ca-roll.ts'

const root = (subject: string) => ({
  ...{
    subject,
    fingerprint256: 'ab'.repeat(32),
    keyId: 'cd'.repeat(20),
    notAfter: '2039-12-30T00:00:00Z',
  },
})
const USED = {
  stage: 'used',
  ...{ from: root('CN=A'), to: root('CN=B') },
  ...{ begunAt: '2030-01-01T00:00:00Z', usedAt: '2030-01-15T00:00:00Z' },
  inForce: {
    ...{ total: 2, renewable: 1, names: ['a.test', 'b.test'], until: '2030-01-22T00:00:00Z' },
  },
  lacking: ['psk:web (10.0.0.1, last seen 2030-01-20T00:00:00Z)'],
  fetchedFrom: ['10.0.0.1', '10.0.0.2'],
  next: { action: 'finish', from: '2030-02-14T00:00:00Z' },
}

/** A service that answers with this stage, and what it was asked. */
async function stage(t: Test, answer: object = USED) {
  const bodies: unknown[] = []
  const app = fastify()
  app.get('/api/ca/roll', async () => answer)
  app.post('/api/ca/roll', async ({ body }) => {
    bodies.push(body)
    return answer
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const folder = testFolder(t)
  const files = ['api.key', 'root.pem', 'root.key', 'old.key'].map((name) => join(folder, name))
  for (const file of files) writeFileSync(file, `content of ${file.slice(folder.length + 1)}`)
  const [keyFile = ''] = files
  writeFileSync(keyFile, 'key-of-the-tests-0123456789', { mode: 0o600 })
  const { port } = app.server.address() as AddressInfo
  const io = { env: {}, stderr: { write() {} }, actionFor: () => undefined }
  const run = async (step: string, options: object = {}) => {
    const connection = { url: `http://127.0.0.1:${port}`, keyFile }
    return (await Array.fromAsync(caRoll([step], { ...connection, ...options }, io))).join('')
  }
  return { bodies, files, run }
}

t.test('each step with its options', async (t) => {
  const { bodies, files, run } = await stage(t)
  const [, rootFile, rootKey, signerKey] = files
  const pems = {
    root: 'content of root.pem',
    key: 'content of root.key',
    signerKey: 'content of old.key',
  }
  for (const [step, options, body] of [
    ['begin', {}, { action: 'begin' }],
    ['begin', { root: rootFile, rootKey, signerKey }, { action: 'begin', ...pems }],
    ['begin', { noCross: true }, { action: 'begin', cross: false }],
    ['use', {}, { action: 'use' }],
    ['use', { force: true }, { action: 'use', now: true }],
    ['back', {}, { action: 'back' }],
    [
      'finish',
      { force: true, forgetKey: true },
      { action: 'finish', force: true, forgetKey: true },
    ],
  ] as const) {
    await run(step, options)
    t.strictSame(bodies.at(-1), body, JSON.stringify(options))
  }
  const before = bodies.length
  await run('status')
  t.equal(bodies.length, before, 'a question changes nothing')
})

t.test('what people and programs read', async (t) => {
  const { run } = await stage(t)
  t.equal(
    await run('status'),
    `stage                           used
begun at                        ${localTime('2030-01-01T00:00:00Z')}
used since                      ${localTime('2030-01-15T00:00:00Z')}
old root                        CN=A, ends ${localTime('2039-12-30T00:00:00Z')}, SHA-256 ${'ab'.repeat(32)}
new root                        CN=B, ends ${localTime('2039-12-30T00:00:00Z')}, SHA-256 ${'ab'.repeat(32)}
in force below the old root     2 until ${localTime('2030-01-22T00:00:00Z')}, such as a.test, b.test
renew these                     gatehouse-certs renew --under ${'cd'.repeat(20)}
clients that lack the new root  psk:web (10.0.0.1, last seen 2030-01-20T00:00:00Z)
both roots were fetched from    2 addresses, 10.0.0.1, 10.0.0.2
not known                       what programs and devices trust that do not say so
next step                       finish, from ${localTime('2030-02-14T00:00:00Z')}
`,
  )
  t.strictSame(JSON.parse(await run('status', { json: true })), USED)
  const renew = /renew these +gatehouse-certs renew --under /
  const refused = /in force [^\n]+\nwho refuses these +whoever trusts only the new root\n/
  for (const [state, inForce, isRenewed, isRefused] of [
    ['begun', {}, false, false],
    ['used', {}, true, false],
    ['used', { renewable: 0 }, false, false],
    ['finished', {}, true, true],
    ['finished', { renewable: 0 }, false, true],
    ['finished', { total: 0, renewable: 0 }, false, false],
  ] as const) {
    const answer = { ...USED, stage: state, inForce: { ...USED.inForce, ...inForce } }
    const text = await (await stage(t, answer)).run('status')
    t.equal(renew.test(text), isRenewed, text)
    t.equal(refused.test(text), isRefused, text)
  }
  const second = await stage(t, { ...USED, lostRoot: root('CN=Oldest') })
  t.match(await second.run('status'), /cut off by the new root +whoever trusts only CN=Oldest\n/)
  const lacking = 'abcdefg'.split('')
  for (const [count, shown] of [
    [5, 'a, b, c, d, e'],
    [7, 'a, b, c, d, e and 2 more'],
  ] as const) {
    const many = await stage(t, { ...USED, lacking: lacking.slice(0, count) })
    t.match(await many.run('status'), `clients that lack the new root  ${shown}\n`)
  }
  const finished = await stage(t, {
    ...{ ...USED, inForce: { total: 0, renewable: 0, names: [] }, next: undefined },
  })
  t.match(await finished.run('status'), /in force below the old root +0\n/)
  const none = await stage(t, { stage: 'none', from: root('CN=A') })
  t.match(await none.run('status'), /^stage +none\nroot +CN=A, ends [^\n]+\n$/)
})

t.test('a file that is not there', async (t) => {
  const { bodies, run } = await stage(t)
  const message = '/nowhere/root.pem cannot be read: ENOENT'
  await t.rejects(run('begin', { root: '/nowhere/root.pem' }), { message })
  t.strictSame(bodies, [])
})

t.test('what is no step, and the option of another one', async (t) => {
  const { bodies, run } = await stage(t)
  for (const [step, options, message] of [
    ['abort', {}, 'STEP must be one of begin, status, use, back, finish, cancel'],
    ['finsh', {}, /^STEP must be one of .*; did you mean finish\?$/],
    ['toString', {}, /^STEP must be one of/],
    ['back', { force: true }, '--force is an option of use, not of back'],
    ['use', { forgetKey: true }, '--forget-key is an option of finish, not of use'],
    ['status', { rootKey: 'next.key' }, '--root-key is an option of begin, not of status'],
    ['back', { noCross: true }, '--no-cross is an option of begin, not of back'],
  ] as const)
    await t.rejects(run(step, options), { message })
  t.strictSame(bodies, [])
})
