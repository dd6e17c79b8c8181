import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Different ports of loopback that nobody listens on, below those of outgoing connections: one of these
 * could take a port before it is used.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) {
    const port = randomInt(10_000, 32_000)
    const server = createServer()
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      await once(server.close(), 'close')
      ports.add(port)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
  return [...ports]
}

/** A port of loopback that nobody listens on. */
export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  return port as number
}
