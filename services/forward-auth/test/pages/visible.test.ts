import t from 'tap'
import { argumentLines } from '../../src/pages/visible.ts'

t.test('shows integers in all their digits, and no number that was rounded', async (t) => {
  const big = { id: 2n ** 64n + 1n, list: [-(2n ** 53n), 2 ** 53 - 1, 0.1] }
  t.strictSame(argumentLines(big), [
    [['id'], ['18446744073709551617']],
    [['list'], ['[-9007199254740992,9007199254740991,0.1]']],
  ])
  t.equal(argumentLines({ id: 2 ** 53 }), undefined)
})
