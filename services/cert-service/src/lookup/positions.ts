import { hash } from 'node:crypto'
import { isOrder, positionOf } from '@gatehouse/cert-store/listing'
import type { Listed, ListOrder, Position } from '@gatehouse/cert-store/port'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import { CertError } from '../errors.ts'
import { mayAll } from '../policy/authorize.ts'
import type { Principal } from '../policy/rules.ts'

/** A place in a listing: the SHA-256 of a certificate or the ID of an order, and the time that it is sorted by. */
export const CursorText = Type.String({ pattern: '^[A-Za-z0-9-]{1,64}(_[0-9]{1,15})?$' })
const SHA_256 = /^[0-9a-f]{64}$/

/** Tells the place of what is shown, by nothing that is not shown. */
export function cursorOf(listed: Listed, order: ListOrder): string {
  const { key, id } = positionOf(listed, order)
  const name = isOrder(listed) ? listed.id : hash('sha256', listed.certificate)
  return key === id || typeof key === 'string' ? name : `${name}_${key}`
}

/** Finds a place. @throws CertError `CERT_NOT_FOUND` if nothing is or was there that the reader may see */
export async function findPosition(
  { store, policy }: FastifyInstance,
  reader: Principal,
  cursor: string,
  order: ListOrder,
): Promise<Position> {
  const [name = '', time] = cursor.split('_')
  const listed = await (SHA_256.test(name) ? store.findIssued(name) : store.findOrder(name))
  if (!listed || !mayAll({ policy }, reader, 'read', listed))
    throw new CertError('CERT_NOT_FOUND', 'nothing that you may see is at this place of the list')
  const { key, id } = positionOf(listed, order)
  // The row may be sorted by another time now.
  const isMoved = time !== undefined && typeof key === 'number' && key !== id
  return { key: isMoved ? Number(time) : key, id }
}
