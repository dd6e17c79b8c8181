import { X509Certificate } from 'node:crypto'
import t from 'tap'
import {
  createCrl,
  createRoot,
  generateKeyPair,
  REVOCATION_REASONS,
  type RevocationReason,
} from '../src/index.ts'
import { DAY, makeAuthorities, NOW, x509 } from './helpers.ts'

const { intermediate } = await makeAuthorities()
const update = { thisUpdate: NOW, nextUpdate: NOW + 7 * DAY }
const read = (der: Uint8Array) =>
  new x509.X509Crl(new Uint8Array(der), { berOptions: { maxNodes: 100_000 } })

t.test('an empty list', async (t) => {
  const crl = read(createCrl({ authority: intermediate, number: 0n, revoked: [], ...update }))
  t.equal(crl.entries.length, 0)
  t.equal(crl.issuer, 'CN=Test Intermediate')
  t.strictSame([crl.thisUpdate.getTime(), crl.nextUpdate?.getTime()], [NOW, NOW + 7 * DAY])
})

t.test('entries, number and signature, for each kind of authority', async (t) => {
  const reasons = Object.keys(REVOCATION_REASONS) as RevocationReason[]
  const revoked = reasons.map((reason, i) => ({
    serialNumber: `${40 + i}ff`,
    revokedAt: NOW - i * DAY,
    reason,
  }))
  for (const type of ['p256', 'p384', 'rsa2048'] as const) {
    const authority = await createRoot({
      commonName: type,
      now: NOW,
      key: await generateKeyPair(type),
    })
    const crl = read(createCrl({ authority, number: 2n ** 70n, revoked, ...update }))
    const publicKey = await new x509.X509Certificate(
      new Uint8Array(authority.certificate),
    ).publicKey.export()
    t.ok(await crl.verify({ publicKey }), `signature of ${type}`)
    t.strictSame(
      crl.entries.map(({ serialNumber, revocationDate, reason }) => [
        serialNumber,
        revocationDate.getTime(),
        reason,
      ]),
      revoked.map(({ serialNumber, revokedAt, reason }) => [
        serialNumber,
        revokedAt,
        REVOCATION_REASONS[reason] || undefined,
      ]),
      'an unspecified reason is left out',
    )
    t.equal(crl.getExtension(x509.AuthorityKeyIdentifierExtension)?.keyId, authority.info.skid)
    const number = Buffer.from(crl.getExtension('2.5.29.20')?.value ?? new ArrayBuffer(0))
    t.equal(number.toString('hex'), '0209400000000000000000', 'number')
  }
})

t.test('many entries', async (t) => {
  const revoked = Array.from({ length: 5000 }, (_, i) => ({
    serialNumber: (2 ** 32 + i).toString(16).padStart(32, '0'),
    revokedAt: NOW,
  }))
  const crl = read(createCrl({ authority: intermediate, number: 1n, revoked, ...update }))
  t.equal(crl.entries.length, 5000)
})

t.test('creates serial numbers as certificates show them', async (t) => {
  const serialNumber = new X509Certificate(intermediate.certificate).serialNumber
  const crl = read(
    createCrl({
      authority: intermediate,
      number: 1n,
      revoked: [{ serialNumber, revokedAt: NOW }],
      ...update,
    }),
  )
  t.equal(crl.entries[0]?.serialNumber, serialNumber.toLowerCase())
})
