import type { ListOrder } from '@gatehouse/cert-store/port'
import { type Static, Type } from 'typebox'
import { CursorText } from '../lookup/positions.ts'
import type { Text } from '../pages/say.ts'
import { FILTER_NAMES, type Filter } from '../pages/state.ts'

/** The orders of certificates, the first one unless another is asked for. */
export const ORDERS: Readonly<Record<ListOrder, Text>> = {
  next: 'Up next',
  expiry: 'Expiry',
  name: 'Name',
  newest: 'Newest',
}

const keys = <T extends object>(record: T) => Object.keys(record) as (keyof T)[]
/** `every minute`, as the page says. */
const REFRESH_SECONDS = 60
/** The most characters of a search. A pasted URL is longer than a name. */
export const MAX_SEARCH = 2_048

export const ViewSchema = Type.Object({
  q: Type.Optional(Type.String({ maxLength: MAX_SEARCH, pattern: '^[^\\0]*$' })),
  order: Type.Optional(Type.Enum(keys(ORDERS))),
  state: Type.Optional(Type.Enum(keys(FILTER_NAMES))),
  // A form sends what is not chosen, too.
  issuer: Type.Optional(Type.String({ maxLength: 100, pattern: '^[\\w.-]*$' })),
  after: Type.Optional(CursorText),
  before: Type.Optional(CursorText),
  refresh: Type.Optional(Type.Enum(['on', 'off', 'auto'])),
})

/** The certificates that the inventory shows, and how: what its links keep. */
export interface View {
  /** The search as it was entered; undefined while nothing is searched. */
  readonly search?: string | undefined
  readonly order: ListOrder
  readonly state?: Filter | undefined
  readonly issuer?: string | undefined
  /** The place where the page begins or, backwards, ends; the beginning by default. */
  readonly place?: Place | undefined
  /** Whether the page was told to refresh itself. */
  readonly isLive?: boolean
}

export interface Place {
  readonly cursor: string
  readonly isBackwards: boolean
}

export function readView(query: Static<typeof ViewSchema>): View {
  const { q, order = 'next', state, issuer, after, before, refresh } = query
  const cursor = after ?? before
  const place = cursor === undefined ? undefined : { cursor, isBackwards: after === undefined }
  const isLive = refresh === 'on' || refresh === 'auto'
  const search = q?.trim() || undefined
  return { search, order, state, issuer: issuer || undefined, place, isLive }
}

/** Links to a view; defaults are left out. */
export function hrefOf({ search, order, state, issuer, place, isLive }: View): string {
  const query = new URLSearchParams({
    ...(search !== undefined && { q: search }),
    ...(order !== 'next' && { order }),
    ...(state && { state }),
    ...(issuer !== undefined && { issuer }),
    ...(place && { [place.isBackwards ? 'before' : 'after']: place.cursor }),
    ...(isLive && { refresh: 'on' }),
  })
  return query.size > 0 ? `/?${query}` : '/'
}

/** Tells whether the page refreshes itself. One with a search does not, as somebody may be typing there. */
export function isRefreshed({ search, isLive = false }: View): boolean {
  return search === undefined && isLive
}

/** Gives the header that makes a browser load the view again. Such a load does not count as use of a session. */
export function refreshOf(view: View): string {
  return `${REFRESH_SECONDS}; url=${hrefOf(view).replace(/on$/, 'auto')}`
}
