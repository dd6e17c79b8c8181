import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { Test } from 'tap'
import { freePort } from '../../../../scripts/free-ports.ts'

/** A server on loopback that goes with the test; it can go away before, and come back. */
export async function startServer(t: Test, listener: (origin: string) => RequestListener) {
  const server = createServer()
  // No connection is kept: what a client asks after a stop is refused, and nothing goes to one that is just being closed.
  server.maxRequestsPerSocket = 1
  // One that no connection of others takes while it is away.
  const port = await freePort()
  async function start() {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  async function stop() {
    if (!server.listening) return
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  await start()
  t.teardown(stop)
  const origin = `http://127.0.0.1:${port}`
  server.on('request', listener(origin))
  return { origin, stop, restart: start }
}
