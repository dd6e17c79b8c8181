import t, { type Test } from 'tap'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { settle, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'audit rows were lost')

/** A service whose rows of audit wait until they are let through, or refused. */
async function withGate(t: Test) {
  let gate: Promise<void> | undefined
  const running = await start(
    t,
    {},
    {
      async openStore(options) {
        const store = await openStore(options)
        return {
          ...store,
          async addAudit(entries) {
            await gate
            return store.addAudit(entries)
          },
        }
      },
    },
  )
  return {
    running,
    close() {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      promise.catch(() => {})
      gate = promise
      return { resolve, reject }
    },
  }
}

const domain = 'a.test'
const ways: [what: string, method: 'GET' | 'POST', url: string, body?: object][] = [
  ['a repeated POST', 'POST', '/api/certificate', { domain }],
  ['a GET', 'GET', `/api/certificate/${domain}`],
]

for (const [what, method, url, body] of ways) {
  t.test(`${what} is answered when its row of audit is written`, async (t) => {
    const { running, close } = await withGate(t)
    await running.call('POST', '/api/certificate', { domain })
    const gate = close()
    let isAnswered = false
    const answer = running.call(method, url, body).finally(() => {
      isAnswered = true
    })
    await settle()
    t.notOk(isAnswered)
    gate.resolve()
    t.match(await answer, { status: 200, body: { privateKey: /PRIVATE KEY/ } })
    const [row] = await running.service.store.listAudit({ limit: 1 })
    t.match(row, { action: 'hand-out', names: [domain], actor: 'psk:default' })
  })

  t.test(`${what} is answered though its row cannot be written, and the log says so`, async (t) => {
    const { running, close } = await withGate(t)
    await running.call('POST', '/api/certificate', { domain })
    close().reject(new Error('the disk is full'))
    t.match(await running.call(method, url, body), { status: 200 })
    t.ok(running.logged.some((line) => line.includes('audit rows were lost')))
  })
}
