import { onBothEngines } from '../helpers/engines.ts'
import { NOW } from '../helpers/store.ts'

const DAY = 86_400_000

onBothEngines('the use of limits, with what orders have reserved', async (t, { store, pass }) => {
  const keys = ['orders ca', `domain ca ${'x'.repeat(3000)}`]
  const read = () =>
    store.changeUsage(keys, (usage) => [
      keys.map((key) => usage.until(key)),
      keys.map((key) => usage.reservations(key, NOW, DAY).map(({ order }) => order)),
    ])
  t.same(await read(), [
    [0, 0],
    [[], []],
  ])
  const result = await store.changeUsage(keys, (usage) => {
    usage.set(keys[0]!, NOW + 1)
    usage.reserve('a', keys, NOW)
    return 'done'
  })
  t.equal(result, 'done')
  await store.changeUsage(keys, (usage) => usage.reserve('b', [keys[1]!], NOW))
  t.same(await read(), [
    [NOW + 1, 0],
    [['a'], ['a', 'b']],
  ])
  const refused = store.changeUsage(keys, (usage) => {
    usage.set(keys[0]!, NOW + 9)
    usage.end('a')
    throw new Error('used up')
  })
  await t.rejects(refused, /used up/)
  await store.changeUsage(keys, (usage) => usage.end('b'))
  t.same(
    await read(),
    [
      [NOW + 1, 0],
      [['a'], ['a']],
    ],
    'what is refused changes nothing',
  )
  await Promise.all(
    [1, 2].map((n) => store.changeUsage(keys, (usage) => usage.reserve('a', keys, NOW + n))),
  )
  t.same((await read())[1], [['a'], ['a']], 'each takes the place of the one before')
  await store.changeUsage(keys, (usage) => usage.reserve('a', [], NOW))
  t.same((await read())[1], [[], []])

  await store.pruneUsage(NOW + DAY)
  pass(7 * DAY)
  t.equal((await read())[0]?.[0], NOW + 1)
  await store.pruneUsage(NOW + DAY)
  t.equal((await read())[0]?.[0], 0)
})

onBothEngines(
  'use that ended, and what is reserved, go in their time',
  async (t, { store, pass }) => {
    const read = () =>
      store.changeUsage(['orders ca'], (usage) => [
        usage.until('orders ca'),
        usage.reservations('orders ca', NOW, 9 * DAY).length,
      ])
    await store.changeUsage(['orders ca'], (usage) => {
      usage.set('orders ca', NOW + 1)
      usage.reserve('a', ['orders ca'], NOW)
    })
    await store.pruneUsage(NOW + DAY - 1)
    t.same(await read(), [NOW + 1, 1], 'ended')
    pass(7 * DAY - 1)
    await store.pruneUsage(NOW)
    t.same(await read(), [NOW + 1, 1], 'not ended: the clock was ahead')
    pass(1)
    await store.pruneUsage(NOW + DAY)
    t.same(await read(), [NOW + 1, 0], 'ended a moment ago')
    pass(7 * DAY)
    await store.pruneUsage(NOW + DAY)
    t.same(await read(), [0, 0])
  },
)

onBothEngines('a hundred at once count exactly', async (t, { store }) => {
  // No database stores it as it is.
  const caller = 'caller n\0\ud800'
  const one = () =>
    store.changeUsage([caller], (usage) => {
      usage.set(caller, usage.until(caller) + 1)
      return usage.until(caller)
    })
  const counts = await Promise.all(Array.from({ length: 100 }, one))
  t.same(
    counts.toSorted((a, b) => a - b),
    Array.from({ length: 100 }, (_, n) => n + 1),
  )
})

onBothEngines('the use of a caller is found by its name alone', async (t, { store }) => {
  const callers = ['psk:a', 'psk:a_b', 'psk:a%b', 'psk:a!b', 'psk:axb', 'psk:A']
  for (const caller of callers)
    await store.changeUsage([`orders ca ${caller}`], (usage) =>
      usage.set(`orders ca ${caller}`, NOW),
    )
  for (const caller of callers)
    t.strictSame(await store.listUsage(caller), [`orders ca ${caller}`], caller)
  t.strictSame(await store.listUsage('sk:a'), [])
})
