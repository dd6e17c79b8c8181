import t from 'tap'
import { Holdings } from '../../src/issuance/held.ts'
import type { CertificateRecord, Store } from '../../src/store/store.ts'
import { leapClock } from '../helpers/app.ts'
import { NOW, newCertificate } from '../helpers/store.ts'

const MANY = 6_000

function setup(store: Partial<Store> = {}) {
  const deps = { store: { onChange() {}, ...store }, clock: leapClock(NOW), keyring: {} }
  return new Holdings(deps as unknown as ConstructorParameters<typeof Holdings>[0])
}

const record = (n: number): CertificateRecord => ({
  ...newCertificate({ names: [`n${n}.test`], lineage: `l${n}`, sealedKey: null }),
  id: n,
})

t.test('thousands of names that are asked for in turn are answered from memory', async (t) => {
  const holdings = setup()
  for (let n = 0; n < MANY; n += 1) holdings.put(record(n))
  const missing = Array.from({ length: MANY }, (_, n) => n).filter((n) => !holdings.peek(`l${n}`))
  t.strictSame(missing, [])
})

t.test('an answer says what was asked for, whoever asks first', async (t) => {
  const held = setup().put(record(1))
  const read = (...about: Parameters<typeof held.json>) => JSON.parse(held.json(...about))
  const usual = read('n1.test', true)
  t.match(usual, { domain: 'n1.test', names: ['n1.test'], certificate: /BEGIN/, cached: true })
  t.strictSame(read('n1.test', false), { ...usual, cached: false })
  t.strictSame(read('www.n1.test', true), { ...usual, domain: 'www.n1.test' })
  t.strictSame(read('n1.test', false, ['OU']), { ...usual, cached: false, ignored: ['OU'] })
  t.equal(held.json('n1.test', true), held.json('n1.test', true))
})

t.test('the certificates of a fleet are read once until something changes', async (t) => {
  const fleet = Array.from({ length: 100 }, (_, n) => record(n))
  let reads = 0
  const findByDomain = async () => {
    reads += 1
    return fleet
  }
  const holdings = setup({ findByDomain })
  for (let n = 0; n < 5; n += 1) await holdings.findByDomain('n.test', 0)
  t.equal(reads, 1)
  // The least used ones go once more certificates are in the lists than are kept.
  for (let n = 0; n < 100; n += 1) await holdings.findByDomain(`other${n}.test`, 0)
  t.equal(holdings.peekByDomain('n.test'), undefined)
  t.equal(holdings.peekByDomain('other99.test'), fleet)
  holdings.put(record(7))
  t.equal(holdings.peekByDomain('other99.test'), undefined)
})
