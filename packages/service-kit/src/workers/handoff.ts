import type { ChildProcess } from 'node:child_process'

/** A message of node:cluster that comes with a new connection, or acknowledges one. */
interface ClusterMessage {
  readonly act?: string
  readonly key?: string
  readonly seq?: number
  readonly ack?: number
}

/** A connection that a worker has not acknowledged yet. */
interface Handed {
  readonly seq: number | undefined
  readonly handle: { close(): void }
}

/**
 * Notes the connection that each listener is handing to a worker. node:cluster forgets it if the worker
 * dies before it has acknowledged it, and the client would wait for ever. Returns what closes them.
 *
 * Node has no public way to learn of this. Without its round robin (`SCHED_NONE`) nothing is handed over,
 * but the connections that proxies keep open gather at a few workers.
 */
export function noteHandoffs(worker: ChildProcess): () => void {
  const handed = new Map<string, Handed>()
  const send = worker.send.bind(worker) as (...args: unknown[]) => boolean
  worker.send = (message: ClusterMessage, handle?: unknown, ...rest: unknown[]) => {
    const { act, key, seq } = message
    // A listener hands over one at a time.
    if (act === 'newconn' && key !== undefined && isClosable(handle))
      handed.set(key, { seq, handle })
    return send(message, handle, ...rest)
  }
  worker.on('internalMessage', ({ ack }: ClusterMessage) => {
    for (const [key, { seq }] of handed) if (ack !== undefined && ack === seq) handed.delete(key)
  })
  return () => {
    for (const { handle } of handed.values()) handle.close()
    handed.clear()
  }
}

function isClosable(handle: unknown): handle is Handed['handle'] {
  return typeof handle === 'object' && handle !== null && 'close' in handle
}
