import { storeUnavailable } from '@gatehouse/store'
import t from 'tap'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { briskClock, issuerAt, problem, startAcme, startCa } from '../helpers/acme.ts'
import { type Running, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'STORE_UNAVAILABLE', 'audit rows were lost', 'ACME_', 'could not be rescheduled')

const domain = 'app.example.com'

const obtain = ({ call }: Running, more: object = {}) =>
  call('POST', '/api/certificate', { domain, ...more })
const read = ({ call }: Running) => call('GET', `/api/certificate/${domain}`)

/** What a store does without what may be away. */
const OWN: readonly unknown[] = ['close', 'runTime', 'failure', 'onChange']

/** A store that says it is shared, and is away when a test wants it. */
function shared() {
  const state = { isAway: false }
  const open: AppDeps['openStore'] = async (options) =>
    new Proxy(await openStore(options), {
      get(store, key) {
        if (key === 'isShared') return true
        const isAway = state.isAway && !OWN.includes(key)
        return isAway
          ? () => Promise.reject(storeUnavailable('for a test'))
          : Reflect.get(store, key)
      },
    })
  return { state, openStore: open }
}

t.test('the certificate of a fallback is answered while the store is away', async (t) => {
  const { state, openStore } = shared()
  const clock = briskClock()
  const ca = await startCa(t, clock)
  ca.answer('newOrder', problem(400, 'rejectedIdentifier'))
  const config = { issuers: [issuerAt(ca, { fallback: 'ca' })] }
  const { running } = await startAcme(t, {}, { clock, ca, config, openStore })
  t.match(await obtain(running), { status: 200, body: { issuer: 'ca', cached: false } })
  state.isAway = true
  t.match(await obtain(running), { status: 200, body: { issuer: 'ca', cached: true } })
})

t.test('one whose renewal had stopped stays answered while that cannot be planned', async (t) => {
  const { state, openStore } = shared()
  const running = await start(t, {}, { openStore })
  const { serialNumber } = (await obtain(running)).body
  const { holdings, store } = running.service
  const [record] = await store.findByDomain(domain)
  await store.setRenewAt(record!.id, null)
  holdings.forget([record!.requestKey])
  await holdings.find(record!.requestKey)
  state.isAway = true
  for (let n = 0; n < 3; n += 1)
    for (const ask of [obtain, read])
      t.match(await ask(running), { status: 200, body: { serialNumber, renewAt: undefined } })
  state.isAway = false
  await obtain(running)
  t.match((await obtain(running)).body.renewAt, /Z$/)
})

t.test(
  'with a CSR it is not answered, as nobody says whether its key was compromised',
  async (t) => {
    const { state, openStore } = shared()
    const running = await start(t, {}, { openStore })
    const csr = makeCsr()
    const { serialNumber } = (await obtain(running, { csr })).body
    state.isAway = true
    t.match(await obtain(running, { csr }), {
      status: 503,
      body: { code: 'STORE_UNAVAILABLE' },
    })
    t.match(await read(running), { status: 200, body: { serialNumber } })
  },
)

t.test('with a store that nobody shares, what cannot be read is not answered', async (t) => {
  const running = await start(t)
  await obtain(running)
  const error = storeUnavailable('for a test')
  t.strictSame(running.service.holdings.remembered([domain], error), [])
})
