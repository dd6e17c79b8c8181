import { hash } from 'node:crypto'
import type { LimitedOrder } from '../issuers/acme/limits.ts'
import type { Limit } from './bucket.ts'
import type { CaLimits } from './ca-limits.ts'
import type { RegisteredDomain } from './registered-domain.ts'

/** One of the limits that an order counts against. */
export interface Quota {
  readonly kind: 'orders' | 'domain' | 'names' | 'failures' | 'failuresInARow' | 'accounts'
  /** Whose bucket it is. */
  readonly key: string
  /** What it is for, in plain words. */
  readonly subject: string
  readonly limit: Limit
}

type Order = Pick<LimitedOrder, 'directory' | 'names'>

/** The quotas of one kind that an order counts against; none where the CA has no such limit. */
export function quotasOf(
  kind: Quota['kind'],
  order: Order,
  limits: CaLimits,
  registeredDomain: RegisteredDomain,
): readonly Quota[] {
  const limit = limits[kind]
  if (!limit) return []
  return subjectsOf(kind, order.names, registeredDomain).map(({ id, subject }) => ({
    kind,
    key: `${kind} ${order.directory} ${id}`,
    subject,
    limit,
  }))
}

/** The key of the fact that these names had a certificate. */
export function issuedKey({ directory, names }: Order): string {
  return `issued ${directory} ${setOf(names)}`
}

/** One per set of names, in any order. */
export function setOf(names: readonly string[]): string {
  return hash('sha256', names.toSorted().join())
}

function subjectsOf(
  kind: Quota['kind'],
  names: readonly string[],
  registeredDomain: RegisteredDomain,
): readonly { id: string; subject: string }[] {
  if (kind === 'orders') return [{ id: '', subject: 'the account' }]
  if (kind === 'accounts') return [{ id: '', subject: 'the address of this host' }]
  if (kind === 'names') return [{ id: setOf(names), subject: 'exactly these names' }]
  // A wildcard is proven by the name that it is of.
  const of = kind === 'domain' ? registeredDomain : (name: string) => name.replace(/^\*\./, '')
  return [...new Set(names.map(of))].map((id) => ({ id, subject: id }))
}
