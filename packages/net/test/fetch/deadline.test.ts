import { once } from 'node:events'
import { createServer } from 'node:http'
import { registerHooks } from 'node:module'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { createFetch } from '../../src/index.ts'

t.test('the deadline of a request starts after its HTTP client was loaded', async (t) => {
  const events: string[] = []
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      if (/\/undici\/index\.js$/.test(url)) events.push('loaded')
      return loaded
    },
  })
  const timeout = AbortSignal.timeout
  AbortSignal.timeout = (ms) => {
    events.push(`${ms} ms from here`)
    return timeout.call(AbortSignal, ms)
  }
  const server = createServer((_request, response) => void response.end('{}'))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const fetch = createFetch()
  t.teardown(async () => {
    AbortSignal.timeout = timeout
    hooks.deregister()
    await fetch.close()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  await fetch(`http://127.0.0.1:${port}/`, { timeoutMs: 10_000 })
  t.strictSame(events, ['loaded', '10000 ms from here'])
})
