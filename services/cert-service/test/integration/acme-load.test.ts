import t from 'tap'
import { post, startAcme } from '../helpers/acme.ts'

t.test('200 names, 50 callers each: 200 orders', async (t) => {
  const { ca, running } = await startAcme(t)
  const answers = await Promise.all(
    Array.from({ length: 200 * 50 }, (_, i) => post(running, `n${i % 200}.example.com`)),
  )
  t.same(running.logged.filter((line) => line.includes('could not be issued')).slice(0, 3), [])
  t.ok(answers.every(({ status }) => status === 200))
  t.equal(new Set(answers.map(({ body }) => body.serialNumber)).size, 200)
  t.equal(ca.count('newOrder'), 200)
  t.equal(ca.count('finalize'), 200)
  t.equal(ca.count('newAccount'), 1)
})
