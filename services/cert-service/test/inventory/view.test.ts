import type { CertificateState, ListOrder } from '@gatehouse/cert-store/port'
import fc from 'fast-check'
import t from 'tap'
import { Check } from 'typebox/schema'
import {
  hrefOf,
  isRefreshed,
  ORDERS,
  readView,
  refreshOf,
  type View,
  ViewSchema,
} from '../../src/inventory/view.ts'
import { STATE_NAMES } from '../../src/pages/state.ts'

const SHA_256 = 'ab'.repeat(32)
const ORDER = '6b1f5c1e-7a52-4d0c-9f0e-0c6a2f0f8d11'
const queryOf = (href: string) => Object.fromEntries(new URL(href, 'https://x').searchParams)

t.test('a link says no more than it has to', async (t) => {
  const cases: [view: View, href: string][] = [
    [{ order: 'next' }, '/'],
    [{ order: 'next', isLive: true }, '/?refresh=on'],
    [{ search: 'a b', order: 'name' }, '/?q=a+b&order=name'],
    [{ order: 'next', state: 'due', issuer: 'ca' }, '/?state=due&issuer=ca'],
    [
      {
        order: 'name',
        place: { cursor: SHA_256, isBackwards: true },
      },
      `/?order=name&before=${SHA_256}`,
    ],
  ]
  for (const [view, href] of cases) t.equal(hrefOf(view), href)
})

t.test('a page begins or ends at a place', (t) => {
  const cases: [query: object, place: View['place']][] = [
    [{ after: `${SHA_256}_12` }, { cursor: `${SHA_256}_12`, isBackwards: false }],
    [
      { after: SHA_256, before: ORDER },
      { cursor: SHA_256, isBackwards: false },
    ],
    [
      { order: 'expiry', before: `${ORDER}_12` },
      { cursor: `${ORDER}_12`, isBackwards: true },
    ],
  ]
  for (const [query, place] of cases) {
    t.same(readView(query).place, place, JSON.stringify(query))
    t.ok(Check(ViewSchema, query))
  }
  for (const after of ['7_a.b', `${SHA_256}_9999999999999999`, '', 'a b'])
    t.notOk(Check(ViewSchema, { after }), after)
  t.end()
})

t.test('what a form sends of what was not chosen is nothing', async (t) => {
  const view = readView({ q: ' ', issuer: '', order: 'next' })
  t.equal(hrefOf(view), '/')
  t.match(view, { search: undefined, issuer: undefined })
})

t.test('a link leads to the view that it was made for', async () => {
  const id = fc.oneof(fc.constant(SHA_256), fc.uuid())
  const cursor = fc.tuple(id, fc.nat()).map(([name, time]) => (time % 2 ? name : `${name}_${time}`))
  const views = fc.record({
    search: fc.option(
      fc.string({ maxLength: 40 }).map((text) => text.trim() || 'x'),
      { nil: undefined },
    ),
    isLive: fc.boolean(),
    order: fc.constantFrom(...(Object.keys(ORDERS) as ListOrder[])),
    state: fc.option(fc.constantFrom(...(Object.keys(STATE_NAMES) as CertificateState[])), {
      nil: undefined,
    }),
    issuer: fc.option(fc.stringMatching(/^[\w.-]{1,20}$/), { nil: undefined }),
    place: fc.option(fc.record({ cursor, isBackwards: fc.boolean() }), { nil: undefined }),
  })
  fc.assert(
    fc.property(views, (view) => {
      const query = queryOf(hrefOf(view))
      if (!Check(ViewSchema, query)) return false
      t.same(readView(query), view)
      return true
    }),
  )
})

t.test(
  'a page that was told to refreshes itself with all that it shows, unless it is of a search',
  async (t) => {
    const cases: [view: View, header: string | undefined][] = [
      [{ order: 'next', isLive: true }, '60; url=/?refresh=auto'],
      [
        { order: 'name', state: 'due', isLive: true },
        '60; url=/?order=name&state=due&refresh=auto',
      ],
      [{ order: 'next' }, undefined],
      [{ order: 'next', search: 'app', isLive: true }, undefined],
    ]
    for (const [view, header] of cases)
      t.equal(isRefreshed(view) ? refreshOf(view) : undefined, header, JSON.stringify(view))
    t.equal(hrefOf(readView({ refresh: 'auto' })), '/?refresh=on', 'its links are those of before')
  },
)
