import { type Static, Type } from 'typebox'
import type { CertificateState, ListOrder, Position } from '../store/store.ts'

/** What certificates are ordered by, the first one unless another is asked for. */
export const ORDERS: Readonly<Record<ListOrder, string>> = {
  next: 'Next event',
  expiry: 'Expiry',
  name: 'Name',
  newest: 'Newest',
}
/** The states of certificates as a filter names them, the worst last. */
export const STATE_NAMES: Readonly<Record<CertificateState, string>> = {
  renews: 'Renews',
  due: 'Being renewed',
  unrenewed: 'Not renewed',
  failing: 'Failing',
  ended: 'Ended',
}

const keys = <T extends object>(of: T) => Object.keys(of) as (keyof T)[]
/** An id, and by what its certificate is ordered: a time or a name. */
const Place = Type.String({ pattern: '^[0-9]{1,15}-[a-z0-9.*:-]{1,254}$' })

/** The query of the inventory. */
export const ViewSchema = Type.Object({
  q: Type.Optional(Type.String({ maxLength: 253 })),
  order: Type.Optional(Type.Enum(keys(ORDERS))),
  state: Type.Optional(Type.Enum(keys(STATE_NAMES))),
  issuer: Type.Optional(Type.String({ maxLength: 100, pattern: '^[\\w.-]+$' })),
  after: Type.Optional(Place),
  before: Type.Optional(Place),
})

/** Which certificates the inventory shows, and how: what its links keep. */
export interface View {
  /** As it was entered. */
  readonly search: string
  readonly order: ListOrder
  readonly state?: CertificateState | undefined
  readonly issuer?: string | undefined
  /** Where the page begins or, backwards, ends; the beginning by default. */
  readonly place?: Place | undefined
}

interface Place {
  readonly position: Position
  readonly isBackwards: boolean
}

export function readView(query: Static<typeof ViewSchema>): View {
  const { q = '', order = 'next', state, issuer, after, before } = query
  const position = readPosition(after ?? before, order)
  const place = position && { position, isBackwards: after === undefined }
  return { search: q.trim(), order, state, issuer, place }
}

/** The link to a view, with what it does not say left out. */
export function hrefOf({ search, order, state, issuer, place }: View): string {
  const query = new URLSearchParams({
    ...(search && { q: search }),
    ...(order !== 'next' && { order }),
    ...(state && { state }),
    ...(issuer !== undefined && { issuer }),
    ...(place && { [place.isBackwards ? 'before' : 'after']: textOf(place.position) }),
  })
  return query.size > 0 ? `/?${query}` : '/'
}

function textOf({ key, id }: Position): string {
  return `${id}-${key}`
}

/** A place in another order is none. */
function readPosition(text: string | undefined, order: ListOrder): Position | undefined {
  if (text === undefined) return undefined
  const dash = text.indexOf('-')
  const [id, key] = [Number(text.slice(0, dash)), text.slice(dash + 1)]
  if (order === 'name') return { key, id }
  return /^\d{1,15}$/.test(key) ? { key: Number(key), id } : undefined
}
