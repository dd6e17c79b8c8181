import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'

const REPORT_EVERY_MS = 60_000
/** For the store, for logs and for requests of our own: at least so many, or a tenth of all. */
const KEPT_FREE = 64

/**
 * Takes no more connections than leave the process files to open, and says so in the log at most once
 * a minute. Without it the system would close what cannot be accepted, and nobody would be told.
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

/** How many files the process may have open; infinite where the system does not say. */
function readOpenFiles(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
