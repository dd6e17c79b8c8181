import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { NOW, testStore } from '../../../cert-store/test/helpers/store.ts'
import { leapClock } from '../../../issuance/test/leap-clock.ts'
import { Outbox } from '../../src/events/outbox.ts'
import { type Loop, type Loops, repeat } from '../../src/loops.ts'

/** A webhook needs none. */
function noText(): never {
  throw new Error('a text was asked for')
}

/** An outbox that sends the first of two events, which its receiver has not answered. */
async function setup(t: Test) {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  let requests = 0
  server.on('request', () => (requests += 1))
  const request = once(server, 'request')

  const { store } = await testStore(t)
  for (const body of ['first', 'second'])
    await store.addEvent({ body, at: NOW, receivers: ['webhook'] })
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
  const { outbox, answer, stop, seen } = await setup(t)
  const stopped = stop()
  answer()
  await stopped
  t.strictSame(await seen(), { requests: 1, waiting: 1 })
  await outbox.close()
})

t.test('an event that is still being sent when all else has ended is kept', async (t) => {
  const { outbox, stop, seen } = await setup(t)
  const stopped = stop()
  await outbox.close()
  await stopped
  t.strictSame(await seen(), { requests: 1, waiting: 2 })
})
