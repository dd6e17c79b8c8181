import t from 'tap'
import { type OrderState, step } from '../../../src/index.ts'
import { enrol, orderFor, run, stepsOf, WHOLE } from '../../helpers.ts'
import type { Kind, Reply, ScriptedCa } from '../../scripted-ca/index.ts'

t.test('continues to poll after a temporary error', async (t) => {
  const rows: [what: string, kind: Kind, replies: (Reply | (() => undefined))[]][] = [
    [
      'while it validates',
      'authorization',
      [() => undefined, () => undefined, 'reset', { status: 502, body: '' }],
    ],
    ['while it issues', 'order', [() => undefined, () => undefined, 'reset', { body: '{}' }]],
    ['as it is told to look', 'challenge', ['reset']],
  ]
  for (const [what, kind, replies] of rows) {
    const { io, ca, log } = await enrol(t, { processing: 2 })
    ca.answer(kind, ...replies)
    t.equal(stepsOf(await run(await orderFor(['a.example']), io)), WHOLE, what)
    t.equal(log.length, 2, `${what}: the answer stands until the end`)
  }
})

t.test('polls as often as the CA asks, for a limited time', async (t) => {
  const { io, ca, clock } = await enrol(t)
  const states = await run(await orderFor(['a.example']), io)
  const finalizing = { ...states[4], step: 'finalizing' } as OrderState
  const processing: Reply = {
    headers: { 'retry-after': '90' },
    body: { ...(await orderBody(ca)), status: 'processing' },
  }
  ca.answer('order', ...Array.from({ length: 50 }, () => processing))
  const before = { at: clock.now(), count: ca.count('order') }
  await t.rejects(step(finalizing, io), { code: 'ACME_TIMEOUT', retryAfterMs: 90_000 })
  t.equal(ca.count('order') - before.count, 7, 'every 90 seconds of ten minutes')
  t.equal(clock.now() - before.at, 6 * 90_000)
})

async function orderBody({ exchanges }: ScriptedCa) {
  const path = exchanges.findLast(({ kind }) => kind === 'order')?.path ?? ''
  const url = (kind: string) => `http://127.0.0.1:1/${kind}${path}`
  const identifiers = [{ type: 'dns', value: 'a.example' }]
  return { identifiers, authorizations: [url('authorization')], finalize: url('finalize') }
}
