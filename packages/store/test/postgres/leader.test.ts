import t from 'tap'
import type { Connection } from '../../src/postgres/connection.ts'
import { Leadership } from '../../src/postgres/leader.ts'
import type { Session } from '../../src/postgres/session.ts'

/** A session whose database answers what it is told, and is asked for locks. */
function session(answer: (connection: { lost?: Error }) => Promise<readonly object[]>) {
  const asked: unknown[] = []
  const connection: { lost?: Error; all: Connection['all'] } = {
    all: async (_, params) => {
      asked.push(params)
      return (await answer(connection)) as Awaited<ReturnType<Connection['all']>>
    },
  }
  const add = () => {}
  return { asked, leadership: new Leadership({ connection, add } as unknown as Session, 'schema') }
}

t.test('leads if the database gives the lock, until the connection is lost', async (t) => {
  type Answer = Parameters<typeof session>[0]
  const rows: [what: string, leads: boolean, answer: Answer][] = [
    ['a free lock', true, async () => [{ leads: true }]],
    ['the lock of another', false, async () => [{ leads: false }]],
    ['an error', false, () => Promise.reject(new Error('away'))],
    [
      'a connection that is lost with the answer',
      false,
      async (connection) => {
        connection.lost = new Error('lost')
        return [{ leads: true }]
      },
    ],
  ]
  for (const [what, leads, answer] of rows) {
    const { leadership } = session(answer)
    t.equal(await leadership.tryLead('key'), leads, what)
    t.equal(leadership.leads('key'), leads, what)
    t.notOk(leadership.leads('other'), what)
    leadership.leave()
    t.notOk(leadership.leads('key'), what)
  }
})

t.test('asks for a lock once, however many try', async (t) => {
  const { leadership, asked } = session(async () => [{ leads: true }])
  const tries = [1, 2, 3].map(() => leadership.tryLead('key'))
  t.strictSame(await Promise.all([...tries, leadership.tryLead('other')]), Array(4).fill(true))
  t.ok(await leadership.tryLead('key'))
  t.strictSame(asked, [['schema/key'], ['schema/other']])
})
