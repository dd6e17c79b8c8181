import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { parseProxyName, proxyAsker } from '../src/index.ts'

/** Of 252 characters, without the underscores of fewer. */
const longest = `${`${'_a'.repeat(62)}.`.repeat(2)}_a`

const names: [text: string, name: string | undefined][] = [
  ['traefik', 'traefik'],
  ['Traefik', 'traefik'],
  ['my_proxy', 'my_proxy'],
  ['HOME_traefik_1', 'home_traefik_1'],
  ['proxy.example.com', 'proxy.example.com'],
  ['proxy.example.com.', 'proxy.example.com.'],
  ['my_proxy.', 'my_proxy.'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['host.docker.internal', 'host.docker.internal'],
  ['localhost', 'localhost'],
  [`${longest}b`, `${longest}b`],
  [`${longest}bc`, undefined],
  ['', undefined],
  ['.', undefined],
  ['_', undefined],
  ['traefik..', undefined],
  ['-traefik', undefined],
  ['bü_cher', undefined],
  ['10.0.0.5', undefined],
  ['10.0.0.256', undefined],
  ['10.0.0.0_8', undefined],
  ['10.0.0_.5', undefined],
  ['10.0.0.0/8', undefined],
  ['::1', undefined],
  ['fd00__::1', undefined],
  ['[::1]', undefined],
  ['fe80::1%eth0', undefined],
  ['http://traefik', undefined],
  ['traefik:8080', undefined],
  ['*.example.com', undefined],
  ['traefik frontend', undefined],
  ['traefik\n', undefined],
  [`${'a'.repeat(63)}.`.repeat(4), undefined],
  [`${'_a'.repeat(63)}.`.repeat(3), undefined],
]

t.test('tells host names from addresses, networks and everything else', async (t) => {
  for (const [text, name] of names) t.equal(parseProxyName(text), name, JSON.stringify(text))
})

t.test('a name is its own canonical form, whatever it is made of', async (t) => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'B', '1', '_', '-', '.', 'ü'),
    maxLength: 12,
  })
  fc.assert(
    fc.property(text, (text) => {
      const name = parseProxyName(text)
      if (name !== undefined) t.equal(parseProxyName(name), name)
    }),
  )
})

t.test('an answer is that of single machines, or counts as none', async (t) => {
  const many = (count: number) => Array.from({ length: count }, (_, i) => `10.0.0.${i + 1}`)
  const table: [answer: string[], state: string, addresses: string[]][] = [
    [['10.0.0.5'], 'found', ['10.0.0.5']],
    [['10.0.0.9', '10.0.0.5', '10.0.0.9'], 'found', ['10.0.0.5', '10.0.0.9']],
    [['FD00:0::5', '10.0.0.5'], 'found', ['10.0.0.5', 'fd00::5']],
    [['::ffff:10.0.0.5'], 'found', ['10.0.0.5']],
    [['127.0.0.1', '::1'], 'found', ['127.0.0.1', '::1']],
    [many(16), 'found', many(16).toSorted()],
    [[...many(16), '10.0.0.1'], 'found', many(16).toSorted()],
    [many(17), 'broad', []],
    [['0.0.0.0'], 'broad', []],
    [['10.0.0.5', '::'], 'broad', []],
    [['::ffff:0.0.0.0'], 'broad', []],
    [['255.255.255.255'], 'broad', []],
    [['224.0.0.1'], 'broad', []],
    [['239.255.255.255'], 'broad', []],
    [['0.1.2.3'], 'broad', []],
    [['223.1.2.3'], 'found', ['223.1.2.3']],
    [['25.0.0.1'], 'found', ['25.0.0.1']],
    [['fe80::ff02:1'], 'found', ['fe80::ff02:1']],
    [['ff02::1'], 'broad', []],
    [[], 'missing', []],
    [['fe80::1%eth0'], 'missing', []],
    [['fe80::1%eth0', '10.0.0.5'], 'found', ['10.0.0.5']],
    [['nonsense'], 'missing', []],
  ]
  for (const [answer, state, addresses] of table) {
    const found = await proxyAsker('traefik', timers().clock, async () => answer)()
    t.strictSame([found.state, found.addresses], [state, addresses], answer.join())
  }
})

/** A clock whose timers fire when the test says so. */
function timers() {
  const waiting = new Set<() => void>()
  const clock = {
    now: () => 0,
    setTimer(fn: () => void) {
      waiting.add(fn)
      return { cancel: () => void waiting.delete(fn) }
    },
  }
  return { clock, waiting, fire: () => [...waiting].map((fn) => fn()) }
}

t.test('tells a name that does not exist from a resolver that fails', async (t) => {
  const table: [code: string, state: string][] = [
    ['ENOTFOUND', 'missing'],
    ['ENODATA', 'missing'],
    ['EAI_AGAIN', 'failing'],
    ['EAI_FAIL', 'failing'],
    ['ECONNREFUSED', 'failing'],
    ['EMFILE', 'failing'],
  ]
  for (const [code, state] of table) {
    const { clock, waiting } = timers()
    const ask = proxyAsker('traefik', clock, () =>
      Promise.reject(Object.assign(new Error(), { code })),
    )
    t.match(await ask(), { state, addresses: { length: 0 } }, code)
    await setImmediate()
    t.equal(waiting.size, 0, 'no timer stays')
  }
})

t.test('waits for a bounded time, and asks once at a time', async (t) => {
  const { clock, waiting, fire } = timers()
  const answer = Promise.withResolvers<string[]>()
  let asked = 0
  const ask = proxyAsker('traefik', clock, () => {
    asked++
    return answer.promise
  })
  const first = ask()
  fire()
  t.match(await first, { state: 'failing' })
  const second = ask()
  t.equal(asked, 1, 'the first lookup is still on its way')
  answer.resolve(['10.0.0.5'])
  t.strictSame((await second).addresses, ['10.0.0.5'])
  await ask()
  t.equal(asked, 2)
  await setImmediate()
  t.equal(waiting.size, 0)
})
