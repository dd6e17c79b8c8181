import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { request } from 'undici'
import { type AgentOptions, backoffMs, createAgent } from '../src/index.ts'

async function ask(t: Test, answer: RequestListener, options: AgentOptions) {
  const server = createServer(answer)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const dispatcher = await createAgent(options)
  t.teardown(async () => {
    await dispatcher.destroy()
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x?secret`
  const { body } = await request(url, { dispatcher })
  return body.text()
}

t.test('an agent ends slow requests and refuses large answers', async (t) => {
  const limits = { timeoutMs: 60_000, maxBytes: 10 }
  // Never met, so that a slow machine has the time to connect.
  const short = { ...limits, timeoutMs: 1_000 }
  t.equal(
    await ask(t, (_request, response) => void response.end('0123456789'), limits),
    '0123456789',
  )
  const late = { code: 'NET_FETCH_TIMEOUT', message: /^GET http:\/\/127[^?]*\/x took too long$/ }
  await t.rejects(
    ask(t, () => {}, short),
    late,
    'no answer',
  )
  const drip: RequestListener = (_request, response) => {
    const timer = setInterval(() => response.write(' '), 30)
    response.on('close', () => clearInterval(timer))
  }
  await t.rejects(
    ask(t, drip, { ...short, maxBytes: 1_000_000 }),
    late,
    'an answer that never ends',
  )
  await t.rejects(
    ask(t, (_request, response) => void response.end('0123456789+'), limits),
    { code: 'UND_ERR_RES_EXCEEDED_MAX_SIZE' },
    'an answer that is too large',
  )
})

t.test('the backoff doubles up to 30 seconds, and half of it is random', async (t) => {
  for (const [failures, longest] of [
    [1, 1_000],
    [2, 2_000],
    [5, 16_000],
    [6, 30_000],
    [2_000, 30_000],
  ] as const) {
    const pauses = Array.from({ length: 100 }, () => backoffMs(failures))
    t.ok(pauses.every((pause) => pause >= longest / 2 && pause <= longest))
    t.ok(new Set(pauses).size > 50)
  }
})
