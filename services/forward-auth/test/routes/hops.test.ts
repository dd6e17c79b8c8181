import t from 'tap'
import { arrive, start, WANTED, WHOLE_WAY } from './kit.ts'

t.test('first visit', async (t) => {
  const { corp, visitor } = await start(t)
  const ada = visitor()
  const { answer, places } = await arrive(ada, corp, WANTED)
  t.match(answer, { statusCode: 200, headers: { 'x-forwarded-user': 'ada' } })
  t.strictSame(places, WHOLE_WAY)
  t.strictSame(ada.cookies('app.example.com'), '')
  t.strictSame(ada.cookies(), '')
})
