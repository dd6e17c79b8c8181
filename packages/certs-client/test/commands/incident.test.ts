import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { localTime } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { incidentKey } from '../../src/commands/incident.ts'

const CERTIFICATE = {
  domain: 'app.example.com',
  serialNumber: 'a1',
  issuer: 'ca',
  reason: 'keyCompromise',
  fetchedAt: '2030-01-02T03:04:05Z',
  client: 'curl/8.5.0',
}
const ANSWER = {
  key: 'web',
  before: '2030-01-03T00:00:01Z',
  accepted: ['0f'],
  accounts: 1,
  revoked: 1,
  certificates: [CERTIFICATE],
  issuing: [],
}

/** A service that gives this answer, and what it was asked. */
async function stage(t: Test, answer: object) {
  const bodies: unknown[] = []
  const app = fastify()
  app.post('/api/incidents/key', async ({ body }) => {
    bodies.push(body)
    return { ...ANSWER, ...answer }
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const keyFile = join(testFolder(t), 'api.key')
  writeFileSync(keyFile, 'key-of-the-tests-0123456789', { mode: 0o600 })
  const { port } = app.server.address() as AddressInfo
  let failures = 0
  const run = async (options: object = {}) => {
    const lines = incidentKey(
      ['web'],
      { url: `http://127.0.0.1:${port}`, keyFile, ...options },
      {
        ...{ env: {}, stderr: { write() {} }, actionFor: () => undefined },
        fail: () => {
          failures += 1
        },
      },
    )
    return (await Array.fromAsync(lines)).join('')
  }
  return { bodies, run, failures: () => failures }
}

t.test('without --yes nothing is done, and the command says so', async (t) => {
  const { bodies, run, failures } = await stage(t, {})
  t.equal(
    await run(),
    [
      'key            web',
      'accepted       SHA-256 0f',
      'ACME accounts  1 would be ended',
      'certificates   1 would be revoked',
      `made before    ${localTime(ANSWER.before)}`,
      '',
      'NAME             ISSUER  REASON         LAST FETCH                 CLIENT',
      `app.example.com  ca      keyCompromise  ${localTime(CERTIFICATE.fetchedAt)}  curl/8.5.0`,
      '',
      'Nothing was done: --yes does it.',
      '',
    ].join('\n'),
  )
  t.strictSame(bodies, [{ key: 'web', dryRun: true }])
  t.equal(failures(), 0)
  t.match(JSON.parse(await run({ json: true })), { ...ANSWER, dryRun: true })
})

t.test('what the command says in the end', async (t) => {
  const row = { serialNumber: 'b2', issuer: 'public', detail: 'its CA is away' }
  const rows: [answer: object, state: RegExp, failures: number][] = [
    [{}, /^It has ended\. These have to be fetched anew\.$/m, 0],
    [{ accounts: 0, revoked: 0, certificates: [] }, /^Nothing of it is left\.$/m, 0],
    [
      { notRevoked: [row] },
      /^Some of it is left: run it again with --before 2030-01-03T00:00:01Z\.$/m,
      1,
    ],
    [{ notRevoked: [row] }, /^valid still +b2: its CA is away$/m, 1],
    [{ issuing: ['late.example.com'] }, /^being issued +late\.example\.com$/m, 1],
    [{ accepted: [] }, /^accepted +no value of it$/m, 0],
    [{ unconfirmed: ['two'] }, /^not confirmed by +two$/m, 0],
    [{ revoked: 70, certificates: Array(60).fill(CERTIFICATE) }, /^and 20 more: see --json$/m, 0],
    [{ certificates: [{ ...CERTIFICATE, domain: 'x\u001b[2J' }] }, /^x\\u001b\[2J/m, 0],
  ]
  for (const [answer, state, count] of rows) {
    const { bodies, run, failures } = await stage(t, answer)
    t.match(await run({ yes: true, before: '2030-01-02T00:00Z' }), state)
    t.strictSame(bodies, [{ key: 'web', before: '2030-01-02T00:00:00Z', dryRun: false }])
    t.equal(failures(), count, String(state))
  }
})

t.test('a time that is none is refused before anything is asked', async (t) => {
  const { bodies, run } = await stage(t, {})
  await t.rejects(run({ before: 'yesterday' }), { message: /^--before must be a time/ })
  t.strictSame(bodies, [])
})
