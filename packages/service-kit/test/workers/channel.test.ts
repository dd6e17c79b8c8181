import { MessageChannel } from 'node:worker_threads'
import t from 'tap'
import { Channel } from '../../src/workers/channel.ts'

t.test('an answer counts that came in time, though this process stood still', async (t) => {
  const { port1, port2 } = new MessageChannel()
  t.teardown(() => port1.close())
  const answer = (packet: object) =>
    port1.postMessage({ ...packet, gatehouse: 'answer', body: 'done' })
  const channel = new Channel(answer, () => undefined)
  port2.on('message', (message) => channel.receive(message))
  const asked = channel.ask('work', undefined, 20)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
  t.equal(await asked, 'done')
})

t.test('who does not answer is not waited for', async (t) => {
  const channel = new Channel(
    () => {},
    () => undefined,
  )
  const alive = setInterval(() => {}, 60_000)
  t.teardown(() => clearInterval(alive))
  await t.rejects(channel.ask('work', undefined, 5), { message: 'no answer within 5 ms' })
})
