import t from 'tap'
import { request } from 'undici'
import { backoffMs, createDispatcher, createFetch } from '../../src/index.ts'

const controller = {
  aborted: false,
  paused: false,
  reason: null,
  abort() {},
  pause() {},
  resume() {},
}

t.test(
  'a dispatcher of a function serves the fetch of Node, that of undici, and ours',
  async (t) => {
    const requested: string[] = []
    const dispatcher = await createDispatcher(({ origin, path }, handler) => {
      requested.push(`${origin}${path}`)
      queueMicrotask(() => {
        handler.onRequestStart?.(controller, {})
        handler.onResponseStart?.(controller, 200, {}, 'OK')
        handler.onResponseData?.(controller, Buffer.from('answer'))
        handler.onResponseEnd?.(controller, {})
      })
      return true
    })
    const url = 'https://issuer.example/x?y'
    t.equal(await (await fetch(url, { dispatcher } as object)).text(), 'answer')
    t.equal(await (await request(url, { dispatcher })).body.text(), 'answer')
    const ours = createFetch({ dispatcher })
    t.equal((await ours(url)).body.toString(), 'answer')
    await ours.close()
    t.equal((await ours(url)).body.toString(), 'answer', 'and is not closed')
    t.strictSame(requested, [url, url, url, url])
  },
)

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
