import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { keepTokens } from '../src/tokens.ts'

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
