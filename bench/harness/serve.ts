import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'

export interface ServerReady {
  readonly port: number
  /** PEM of the root to trust; plain HTTP without. */
  readonly ca?: string
  /** The access tokens of the agents that it knows. */
  readonly tokens?: readonly string[]
}

/** What a server answers when it is asked for `cpu`: seconds of CPU time that it has used. */
export type Cpu = number

/** What a server answers when it is asked for `memory`, in bytes, after a garbage collection. */
export interface Memory {
  readonly resident: number
  readonly live: number
}

/** In a server process: listens, tells the parent where, and what it uses whenever it asks. */
export async function serve(
  app: FastifyInstance,
  {
    ca,
    tokens,
    onClose,
  }: Pick<ServerReady, 'tokens'> & { ca?: string | undefined; onClose?: () => Promise<void> } = {},
): Promise<void> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  process.on('message', async (what) => process.send!(what === 'cpu' ? cpu() : await memory()))
  process.on('disconnect', async () => {
    await app.close()
    await onClose?.()
    process.exit()
  })
  const { port } = app.server.address() as AddressInfo
  const ready = { port, ...(ca !== undefined && { ca }), ...(tokens && { tokens }) }
  process.send!(ready satisfies ServerReady)
}

function cpu(): Cpu {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

async function memory(): Promise<Memory> {
  // What the first one frees is counted until it has been swept.
  for (let n = 0; n < 3; n++) {
    globalThis.gc?.()
    await setTimeout(100)
  }
  const { rss, heapUsed, external } = process.memoryUsage()
  return { resident: rss, live: heapUsed + external }
}
