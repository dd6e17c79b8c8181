import { localTime } from '@gatehouse/service-kit/program'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import { newSchema, testServer } from '../../../../packages/cert-store/test/helpers/engines.ts'
import { newAudit } from '../../../../packages/cert-store/test/helpers/store.ts'
import { listAudit } from '../../src/cli/audit.ts'
import type { CertServiceConfig } from '../../src/config/schema.ts'

const MINUTE = 60_000

async function linesOf(...query: Parameters<typeof listAudit>): Promise<string[]> {
  const lines: string[] = []
  for await (const line of listAudit(...query)) lines.push(line)
  return lines
}

t.test('the audit trail is listed while the service runs', async (t) => {
  const { url } = await testServer()
  const now = Date.now()
  for (const where of [{ path: testFolder(t) }, { path: 'unused', url, schema: newSchema() }]) {
    const storage = { schema: 'none', ...where } as CertServiceConfig['storage']
    const log = { info() {}, warn() {} }
    await using store = await openStore({ storage, name: 'test', log })
    const old = Array.from({ length: 700 }, (_, i) => newAudit({ at: now - 600 * MINUTE + i }))
    await store.addAudit(old)
    const row = { at: now - MINUTE, action: 'refuse', actor: 'psk:\u001b[2J', names: ['a.test'] }
    const more = { remoteAddress: '192.0.2.1', detail: 'CERT_NAME_NOT_ALLOWED' } as const
    await store.addAudit([newAudit({ ...row, ...more } as object)])
    const list = (since: string | undefined, json: boolean) =>
      linesOf(storage, { ...(since && { since }), json })
    const time = new Date(row.at).toISOString()
    const text = (await list('5m', false)).join('')
    t.equal(
      text,
      `TIME                       EVENT   CALLER         NAMES   FROM       COUNT  DETAILS
${localTime(time)}  refuse  psk:\\u001b[2J  a.test  192.0.2.1  1x     CERT_NAME_NOT_ALLOWED
`,
    )
    const all = (await list(undefined, true)).map((line) => JSON.parse(line))
    t.match(all.at(-1), { time, actor: row.actor, names: ['a.test'], count: 1, ...more })
    t.equal(all.length, 701, 'of a day, by pages')
    t.strictSame(
      all,
      all.toSorted((a, b) => (a.time < b.time ? -1 : 1)),
      'the newest last',
    )
    t.equal((await linesOf(storage, { until: '5m', json: true })).length, 700)
    t.equal(new Set(all.slice(0, -1).map((one) => one.time)).size, 700)
    await t.rejects(list('yesterday', true), { message: /--since must be a time/ })
  }
  const storage = { path: testFolder(t), schema: 'none' } as CertServiceConfig['storage']
  await t.rejects(linesOf(storage, { json: true }), {
    code: 'STORE_MISSING',
  })
})
