import { hash } from 'node:crypto'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import fc from 'fast-check'
import t from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, KEY, NOW, type Running, start } from '../helpers/app.ts'
import { browse, enter } from '../helpers/enter.ts'

const LIMITED = 'a-key-of-team-a-only'
const auth = {
  psk: {
    keys: [
      { name: 'ops', key: KEY },
      { name: 'team a', key: LIMITED, domains: ['*.a.test', 'one.test', '10.0.0.0/8'] },
    ],
  },
}
const rules = [{ effect: 'deny', names: ['secret.a.test'] }]

/** What a store has: names, and when it ends and is renewed. */
interface Entry {
  readonly names: readonly string[]
  readonly ends: number
  readonly renews: number | null
  readonly kind: 'held' | 'failing' | 'never'
  readonly issuer: string
}

const entryOf = (names: fc.Arbitrary<string[]>, issuer: string): fc.Arbitrary<Entry> =>
  fc.record({
    names,
    ends: fc.integer({ min: -1, max: 4 }),
    renews: fc.option(fc.integer({ min: -1, max: 4 })),
    kind: fc.constantFrom('held', 'held', 'failing', 'never'),
    issuer: fc.constant(issuer),
  })
const label = fc.stringMatching(/^[a-z]{1,3}$/)
const own = fc.oneof(
  label.map((text) => `${text}.a.test`),
  fc.constantFrom('one.test', '10.1.2.3'),
)
const foreign = fc.oneof(
  label.map((text) => `${text}.b.test`),
  fc.constantFrom('a.test', '*.a.test', 'secret.a.test', '10.0.0.1.test', '192.0.2.1'),
)
const seen = entryOf(fc.uniqueArray(own, { minLength: 1, maxLength: 3 }), 'ca')
const unseen = fc.oneof(
  entryOf(fc.tuple(own, foreign), 'ca'),
  entryOf(fc.tuple(foreign, own), 'ca'),
  entryOf(fc.tuple(own), CLIENT_ISSUER),
)

async function fill({ service: { store } }: Running, entries: readonly (Entry & { n: number })[]) {
  for (const { names, ends, renews, kind, issuer, n } of entries) {
    const requestKey = `${issuer} ${n}`
    const digest = hash('sha256', requestKey)
    const [notAfter, renewAt] = [NOW + ends * DAY, renews === null ? null : NOW + renews * DAY]
    const certificate = newCertificate({ names, requestKey, issuer, notAfter, renewAt })
    const told = { serialNumber: digest.slice(32), certificate: Buffer.from(digest) }
    if (kind !== 'never')
      await store.addCertificate({ ...certificate, ...told }, newAudit({ names: [...names] }))
    const lastError = { code: 'ACME_CAA', detail: `refused ${n}`, at: NOW }
    const failed = { status: 'failed', nextTryAt: notAfter, lastError } as const
    const id = digest.slice(32)
    if (kind !== 'held')
      await store.saveOrder(newOrder({ ...failed, id, requestKey, issuer, names }))
  }
}

/** All that a key is told: each page of each list, forth and back. */
async function readAll(running: Running, key: string) {
  const answers: string[] = []
  const { cookie } = await enter(running, key)
  const orders = ['next', 'expiry', 'name', 'newest']
  const filters = ['', '&state=renews', '&state=failing', '&state=ended', '&issuer=ca', '&q=a.test']
  for (const start of orders.flatMap((order) => filters.map((rest) => `/?order=${order}${rest}`)))
    for (const rel of ['next', 'prev'])
      for (
        let url: string | undefined = rel === 'next' ? start : answers.at(-1)?.split('\n')[0];
        url;
      ) {
        const { text } = await browse(running, 'GET', url, { cookie })
        answers.push(`${url}\n${text}`)
        url = new RegExp(`href="([^"]+)" rel="${rel}"`).exec(text)?.[1]?.replaceAll('&amp;', '&')
      }
  const headers = { authorization: `APIKey ${key}` }
  for (const path of ['/api/certificates?limit=20', '/api/orders?limit=10'])
    for (let after = ''; ; ) {
      const answer = await running.app.inject({ url: `${path}${after}`, headers })
      answers.push(`${path}${after}\n${answer.payload}`)
      const { next } = answer.json()
      if (next === undefined) break
      after = `&after=${next}`
    }
  return answers
}

t.test('what a caller may not see changes no byte of a list, a link or a count', async (t) => {
  const property = fc.asyncProperty(
    fc.array(seen, { minLength: 52, maxLength: 60 }),
    fc.array(unseen, { minLength: 30, maxLength: 60 }),
    fc.boolean(),
    async (shown, hidden, areMany) => {
      const own = shown.map((entry, n) => ({ ...entry, n }))
      // So many that no page is found without reading past them.
      const copies = areMany ? 12 : 1
      const others = Array.from({ length: copies }, () => hidden).flat()
      const all = [
        ...others.slice(20).map((entry, n) => ({ ...entry, n: 1_000 + n })),
        ...own.flatMap((entry, n) => [
          entry,
          ...others.slice(n, n + 1).map((one) => ({ ...one, n: 9_000 + n })),
        ]),
      ]
      const [alone, among] = [await start(t, { auth, rules }), await start(t, { auth, rules })]
      await Promise.all([fill(alone, own), fill(among, all)])
      const expected = await readAll(alone, LIMITED)
      t.ok(expected.length > 50)
      t.strictSame(await readAll(among, LIMITED), expected)
      await Promise.all([alone.close(), among.close()])
    },
  )
  await fc.assert(property, { numRuns: 2, endOnFailure: true, examples: [] })
})

t.test('a place that the caller may not see is none', async (t) => {
  const running = await start(t, { auth, rules })
  const names = { own: ['x.a.test'], foreign: ['y.b.test'] }
  const [own, foreign] = await Promise.all(
    Object.values(names).map((names) =>
      running.service.store.addCertificate(newCertificate({ names }), newAudit()),
    ),
  )
  const { cookie } = await enter(running, LIMITED)
  const nowhere = '0'.repeat(64)
  const url = `/?order=name&after=${nowhere}`
  const unknown = (await browse(running, 'GET', url, { cookie })).text
  const headers = { authorization: `APIKey ${LIMITED}` }
  for (const [record, status] of [
    [own, 200],
    [foreign, 404],
  ] as const) {
    const after = hash('sha256', record!.certificate)
    for (const path of ['/api/certificates', '/api/orders'])
      t.equal(
        (await running.app.inject({ url: `${path}?after=${after}`, headers })).statusCode,
        status,
      )
    const { text } = await browse(running, 'GET', `/?order=name&after=${after}`, { cookie })
    t.equal(text.includes('x.a.test</b>'), status === 404, 'a page of people begins anew')
    const same = unknown.replaceAll(nowhere, after)
    if (status === 404) t.equal(text, same, 'as if there were no such certificate')
  }
})
