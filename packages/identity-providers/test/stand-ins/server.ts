import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** A server on loopback that goes with the test; it can go away before, and come back. */
export async function startServer(t: Test, listener: (origin: string) => RequestListener) {
  const server = createServer()
  async function start(port = 0) {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
  async function stop() {
    if (!server.listening) return
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
  const port = await start()
  t.teardown(stop)
  const origin = `http://127.0.0.1:${port}`
  server.on('request', listener(origin))
  return { origin, stop, restart: () => start(port) }
}
