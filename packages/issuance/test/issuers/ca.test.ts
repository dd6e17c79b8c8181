import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRoot, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { CaConfig } from '../../src/options/ca.ts'
import { DAY, NOW, obtain, openStage, type Stage } from '../helpers/stage.ts'
import { leapClock } from '../leap-clock.ts'

const intermediateOf = ({ ca }: Stage) => new X509Certificate(ca.intermediate().certificate)

t.test('a leaf ends no later than what signed it', async (t) => {
  const stage = await openStage(t, { ca: { leafLifetime: 180 * DAY } })
  await stage.clock.advance(200 * DAY)
  const { notAfter } = await obtain(stage)
  t.equal(Date.parse(notAfter), intermediateOf(stage).validToDate.getTime())
})

for (const [longest, before] of [
  [7, 30],
  [90, 105],
] as const)
  t.test(
    `an intermediate is replaced ${before} days before its end: ${longest} days`,
    async (t) => {
      const stage = await openStage(t, { ca: { maxLifetime: longest * DAY } })
      const { ca, clock } = stage
      const { fingerprint } = intermediateOf(stage)
      await clock.advance((365 - before) * DAY)
      await ca.upkeep()
      t.equal(intermediateOf(stage).fingerprint, fingerprint, 'not yet')
      await clock.advance(1_000)
      await ca.upkeep()
      const replacement = intermediateOf(stage)
      t.equal(replacement.validToDate.getTime(), clock.now() + 365 * DAY)
      t.ok(replacement.verify(new X509Certificate(ca.root()!).publicKey))
      t.strictSame(ca.degraded(), [])
    },
  )

t.test('an intermediate that ends with its root is not replaced', async (t) => {
  const stage = await openStage(t)
  await stage.clock.advance(3640 * DAY)
  await stage.ca.upkeep()
  const { fingerprint, validToDate } = intermediateOf(stage)
  t.equal(validToDate.getTime(), NOW + 3650 * DAY)
  await stage.ca.upkeep()
  t.equal(intermediateOf(stage).fingerprint, fingerprint)
  t.strictSame(stage.ca.degraded(), ['ca-root'])
})

t.test('a root of the operator gets an intermediate of its own', async (t) => {
  const folder = testFolder(t)
  const first = await openStage(t, { folder })
  const { fingerprint } = intermediateOf(first)
  await first.close()
  const { certificate, key } = await createRoot({ commonName: 'Second', now: NOW })
  const root = { certFile: join(folder, 'root.pem'), keyFile: join(folder, 'root.key') }
  writeFileSync(root.certFile, toPem('CERTIFICATE', certificate))
  writeFileSync(root.keyFile, key!.export({ type: 'pkcs8', format: 'pem' }))
  const second = await openStage(t, { folder, clock: first.clock, ca: { root } })
  t.not(intermediateOf(second).fingerprint, fingerprint)
  t.ok(intermediateOf(second).verify(new X509Certificate(certificate).publicKey))
})

t.test('an intermediate is what the configuration says of one that is made now', async (t) => {
  const folder = testFolder(t)
  const clock = leapClock(NOW)
  const crlUrl = 'http://ca.test/ca/crl.der'
  const permitted = ['*.a.test', '10.0.0.0/8', '9.0.0.0/8']
  const narrow = { permitted: ['*.a.test'] }
  const steps: [what: string, ca: Partial<CaConfig>, isNew: boolean][] = [
    ['at first', {}, true],
    ['nothing changed', {}, false],
    ['permitted added', { permitted }, true],
    ['in another order', { permitted: permitted.toReversed() }, false],
    ['crlUrl added', { ...narrow, crlUrl }, true],
    ['the same', { ...narrow, crlUrl }, false],
    ['crlUrl changed', { ...narrow, crlUrl: `${crlUrl}/other` }, true],
    ['crlUrl removed', narrow, true],
    ['as it was once: that one is still there', {}, false],
    ['only the lifetime of leaves', { leafLifetime: 30 * DAY }, false],
  ]
  const fingerprints = new Set<string>()
  for (const [what, ca, isNew] of steps) {
    const stage = await openStage(t, { folder, clock, ca })
    const { fingerprint, raw } = intermediateOf(stage)
    t.equal(!fingerprints.has(fingerprint), isNew, what)
    t.equal(raw.includes(ca.crlUrl ?? 'http:'), ca.crlUrl !== undefined, what)
    await stage.ca.upkeep()
    t.equal(intermediateOf(stage).fingerprint, fingerprint, 'and it stays')
    t.strictSame(stage.ca.degraded(), [])
    fingerprints.add(fingerprint)
    await stage.close()
  }
})
