import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'

const REPORT_EVERY_MS = 60_000
/** Files that stay available for the store, logs and outgoing requests, or a tenth of all. */
const KEPT_FREE = 64

/**
 * Limits connections to fewer than the process may open files, and logs refused ones at most once a
 * minute. Without a limit the system closes connections that it cannot accept, without a log line.
 */
export function limitConnections(
  server: Server,
  log: { warn(fields: object, message: string): void },
  { openFiles = readOpenFiles(), now = Date.now }: { openFiles?: number; now?: () => number } = {},
): void {
  if (!Number.isFinite(openFiles)) return
  const keptFree = Math.max(KEPT_FREE, Math.ceil(openFiles / 10))
  const maxConnections = Math.max(1, openFiles - keptFree)
  server.maxConnections = maxConnections
  let refused = 0
  let reportedAt = Number.NEGATIVE_INFINITY
  server.on('drop', () => {
    refused++
    if (now() - reportedAt < REPORT_EVERY_MS) return
    log.warn({ refused, maxConnections, openFiles }, 'connections refused: too many are open')
    reportedAt = now()
    refused = 0
  })
}

/** How many files the process may open; infinite if the system does not say. */
function readOpenFiles(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
