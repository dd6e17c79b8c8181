import fc from 'fast-check'
import t from 'tap'
import { Check } from 'typebox/schema'
import {
  hrefOf,
  ORDERS,
  readView,
  STATE_NAMES,
  type View,
  ViewSchema,
} from '../../src/pages/view.ts'
import type { CertificateState, ListOrder } from '../../src/store/store.ts'

const queryOf = (href: string) => Object.fromEntries(new URL(href, 'https://x').searchParams)

t.test('a link says no more than it has to', async (t) => {
  const cases: [view: View, href: string][] = [
    [{ search: '', order: 'next' }, '/'],
    [{ search: 'a b', order: 'name' }, '/?q=a+b&order=name'],
    [{ search: '', order: 'next', state: 'due', issuer: 'ca' }, '/?state=due&issuer=ca'],
    [
      {
        search: '',
        order: 'name',
        place: { position: { key: '*.a-b.c', id: 7 }, isBackwards: true },
      },
      '/?order=name&before=7-*.a-b.c',
    ],
  ]
  for (const [view, href] of cases) t.equal(hrefOf(view), href)
})

t.test('a place in another order is the beginning', async (t) => {
  const cases: [query: object, place: View['place']][] = [
    [{ after: '7-12' }, { position: { key: 12, id: 7 }, isBackwards: false }],
    [
      { after: '7-12', before: '8-13' },
      { position: { key: 12, id: 7 }, isBackwards: false },
    ],
    [
      { order: 'name', before: '7-12' },
      { position: { key: '12', id: 7 }, isBackwards: true },
    ],
    [{ order: 'next', before: '7-a.b' }, undefined],
    [{ order: 'expiry', after: '7-9999999999999999' }, undefined],
  ]
  for (const [query, place] of cases) t.same(readView(query).place, place, JSON.stringify(query))
})

t.test('a link leads to the view that it was made for', async () => {
  const key = fc.nat().map(Number)
  const name = fc.stringMatching(/^[a-z0-9.*:-]{1,60}$/)
  const views = fc
    .record({
      search: fc.string({ maxLength: 40 }).map((text) => text.trim()),
      order: fc.constantFrom(...(Object.keys(ORDERS) as ListOrder[])),
      state: fc.option(fc.constantFrom(...(Object.keys(STATE_NAMES) as CertificateState[])), {
        nil: undefined,
      }),
      issuer: fc.option(fc.stringMatching(/^[\w.-]{1,20}$/), { nil: undefined }),
      place: fc.option(fc.record({ id: fc.nat(), isBackwards: fc.boolean() }), { nil: undefined }),
    })
    .chain(({ place, ...view }) =>
      (view.order === 'name' ? name : key).map((key: number | string): View => {
        const { id = 0, isBackwards = false } = place ?? {}
        return { ...view, place: place && { position: { key, id }, isBackwards } }
      }),
    )
  fc.assert(
    fc.property(views, (view) => {
      const query = queryOf(hrefOf(view))
      if (!Check(ViewSchema, query)) return false
      t.same(readView(query), view)
      return true
    }),
  )
})
