import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { keepRefresh, keepTokens } from '../src/tokens.ts'

const clock = manualClock(1_000_000)
const ANSWER = { access_token: 'a', token_type: 'bearer' } as const
const MINUTE = 60_000

t.test('until when a provider can be asked', async (t) => {
  const rows: [what: string, answer: object, refreshUntil: number | undefined][] = [
    ['with a token', { refresh_token: 'new', refresh_expires_in: 60 }, clock.now() + MINUTE],
    ['for the token of before', { refresh_expires_in: 60 }, clock.now() + MINUTE],
    ['without an end', { refresh_token: 'new', refresh_expires_in: 0 }, undefined],
    ['not said', { refresh_token: 'new' }, undefined],
    ['nonsense', { refresh_token: 'new', refresh_expires_in: {} }, undefined],
  ]
  for (const [what, answer, refreshUntil] of rows) {
    const before = { refresh: 'old', refreshUntil: 5 }
    const kept = keepTokens({ ...ANSWER, ...answer }, before, () => false, clock)
    t.equal(kept.refreshUntil, refreshUntil, what)
    t.equal(kept.refresh, 'refresh_token' in answer ? 'new' : 'old')
  }
})

t.test('of an answer that could not be used, the refresh token stays', async (t) => {
  const stored = { refresh: 'old', id: 'id' }
  const answer = (status: number, body: object) => {
    return { status, headers: {}, body: Buffer.from(JSON.stringify(body)) }
  }
  t.strictSame(keepRefresh(stored, answer(200, { refresh_token: 'new' })), {
    refresh: 'new',
    id: 'id',
  })
  for (const [what, other] of [
    ['none', undefined],
    ['a refusal', answer(400, { refresh_token: 'new' })],
    ['without one', answer(200, {})],
    ['an empty one', answer(200, { refresh_token: '' })],
  ] as const)
    t.equal(keepRefresh(stored, other), undefined, what)
})
