import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/** The highest of the ports that `fetch` asks nobody at (Fetch Standard, "port blocking"). */
export const LAST_BAD_PORT = 10_080

/**
 * Different ports of loopback that nobody listens on, below those of outgoing connections: one of these
 * could take a port before it is used. This process listens on the port after each until it ends, so that
 * no other process that asks is given the same one, as long as a server takes to start or to start again.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) {
    const port = 2 * randomInt(LAST_BAD_PORT / 2 + 1, 16_000)
    const mark = await listen(port + 1)
    if (mark === undefined) continue
    mark.unref()
    const server = await listen(port)
    if (server === undefined) mark.close()
    else {
      await once(server.close(), 'close')
      ports.add(port)
    }
  }
  return [...ports]
}

/** A port of loopback that nobody listens on. */
export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  return port as number
}

/** Gives nothing if the port is in use. */
async function listen(port: number): Promise<Server | undefined> {
  const server = createServer((socket) => void socket.destroy())
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return server
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    return undefined
  }
}
