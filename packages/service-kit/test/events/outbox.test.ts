import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Store } from '@gatehouse/cert-store/port'
import t, { type Test } from 'tap'
import { NOW, testStore } from '../../../cert-store/test/helpers/store.ts'
import { leapClock } from '../../../issuance/test/leap-clock.ts'
import { Outbox } from '../../src/events/outbox.ts'
import { type Loop, type Loops, repeat } from '../../src/loops.ts'

/** A webhook needs none. */
function noText(): never {
  throw new Error('a text was asked for')
}

async function storeWith(t: Test, bodies: readonly string[]): Promise<Store> {
  const { store } = await testStore(t)
  for (const body of bodies) await store.addEvent({ body, at: NOW, receivers: ['webhook'] })
  return store
}

/** An outbox that sends the first event of a store, which its receiver has not answered. */
async function setup(t: Test, store: Store) {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  let requests = 0
  server.on('request', () => (requests += 1))
  const request = once(server, 'request')

  const clock = leapClock(NOW)
  const running: Loop[] = []
  const loops: Pick<Loops, 'add'> = {
    add(pause, run) {
      running.push(repeat(clock, pause, run, (error) => t.fail('the loop failed', { error })))
    },
  }
  const outbox = new Outbox(
    [
      {
        name: 'webhook',
        type: 'webhook',
        allowHttp: false,
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        secret: 'a-secret-for-the-webhook',
        events: ['issued'],
      },
    ],
    { name: 'cert-service', version: '1.0.0', textOf: noText },
    {
      store,
      clock,
      loops,
      log: { warn: (fields) => t.fail('nothing is wrong', fields) },
    },
  )
  const [, response]: ServerResponse[] = await request
  return {
    outbox,
    answer: () => response!.end(),
    stop: () => Promise.all(running.map((loop) => loop.stop())),
    seen: async () => ({ requests, waiting: (await store.countEvents()).webhook }),
  }
}

t.test('a stop lets the event being sent end, and begins no other', async (t) => {
  const { outbox, answer, stop, seen } = await setup(t, await storeWith(t, ['first', 'second']))
  const stopped = stop()
  answer()
  await stopped
  t.strictSame(await seen(), { requests: 1, waiting: 1 })
  await outbox.close()
})

t.test('an event that is still being sent when all else has ended is kept', async (t) => {
  const { outbox, stop, seen } = await setup(t, await storeWith(t, ['first', 'second']))
  const stopped = stop()
  await outbox.close()
  await stopped
  t.strictSame(await seen(), { requests: 1, waiting: 2 })
})

t.test('whoever starts the service again has what waits tried at once', async (t) => {
  const store = await storeWith(t, ['first'])
  const [event] = await store.claimDueEvents('webhook', NOW, 1, NOW)
  await store.delayEvent(event!.id, NOW + 1_440 * 60_000)
  const { seen, answer, stop, outbox } = await setup(t, store)
  answer()
  await stop()
  t.strictSame(await seen(), { requests: 1, waiting: undefined })
  await outbox.close()
})
