import { Type } from 'typebox'
import type { ListOrder, Position } from '../store/store.ts'

/** A place in a listing: the ID of a certificate or order, and the time or name that it is sorted by. */
export const PositionText = Type.String({ pattern: '^[A-Za-z0-9-]{1,64}_[a-z0-9.*:-]{1,254}$' })

/** Writes a position for a URL. */
export function textOf({ key, id }: Position): string {
  return `${id}_${key}`
}

/** Reads a position; one in another order is none. */
export function readPosition(text: string | undefined, order: ListOrder): Position | undefined {
  if (text === undefined) return undefined
  const [of = '', key = ''] = text.split('_')
  const id = /^\d{1,15}$/.test(of) ? Number(of) : of
  if (order === 'name') return { key, id }
  return /^\d{1,15}$/.test(key) ? { key: Number(key), id } : undefined
}
