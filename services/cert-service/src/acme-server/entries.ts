import type { AuditAction, AuditEntry } from '@gatehouse/cert-store/port'
import type { FastifyRequest } from 'fastify'
import { actorOf } from '../policy/authorize.ts'

const HOUR = 3_600_000

/**
 * The entry of the audit trail for what a request does with accounts and their keys.
 * @param hourly - what is written once an hour, with a count
 */
export function entryOf(request: FastifyRequest, action: AuditAction, hourly?: string): AuditEntry {
  const now = request.server.clock.now()
  const key = hourly && `${Math.floor(now / HOUR)} ${action} ${hourly}`
  return { at: now, action, ...actorOf(request), names: [], ...(key && { key }) }
}
