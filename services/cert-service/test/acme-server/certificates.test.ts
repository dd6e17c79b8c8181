import { createPrivateKey } from 'node:crypto'
import { generateP256, parseCertificate } from '@gatehouse/pki'
import t from 'tap'
import { renewalId } from '../../../../packages/acme/src/protocol/renewal-info.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, NOW } from '../helpers/app.ts'
import { foreignCa, signBy } from '../helpers/client-certificates.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const problem = (status: number, type: string) => ({ status, body: { type: PROBLEM + type } })
const HOUR = 3_600_000

t.test('a certificate is revoked', async (t) => {
  const { client, clientOf, service } = await startAcme(t)
  const url = client.at('/acme/revoke-cert')
  const operator = await clientOf('operator')
  const second = await clientOf('web')
  const other = await clientOf('other')
  const keys = generateP256()
  const own = createPrivateKey({ key: keys.pkcs8, format: 'der', type: 'pkcs8' })
  const obtain = async () => (await client.obtain(['a.example.com'], {}, keys))[0] as Buffer
  const body = (leaf: Buffer, reason?: number) => ({
    certificate: leaf.toString('base64url'),
    reason,
  })
  const leaf = await obtain()
  t.match(await other.post(url, body(leaf)), problem(403, 'unauthorized'), 'not by another caller')
  t.match(await client.post(url, body(leaf, 7)), problem(400, 'badRevocationReason'))
  t.match(await client.post(url, body(Buffer.from('x'))), problem(404, 'malformed'))
  t.match(
    await client.post(url, body(leaf), { by: 'key' }),
    problem(403, 'unauthorized'),
    'by another key',
  )
  t.match(
    await client.post(url, body(leaf, 4)),
    { status: 200 },
    'by the account that has ordered it',
  )
  t.match(await client.post(url, body(leaf)), problem(400, 'alreadyRevoked'))
  for (const [why, revoker, reason] of [
    ['by another account of its caller', second, 0],
    ['by who has the right', operator, undefined],
    ['as compromised by an account, which leaves the key as it is', client, 1],
    ['as compromised by another account of the caller', second, 1],
  ] as const)
    t.match(await revoker.post(url, body(await obtain(), reason)), { status: 200 }, why)
  const third = await obtain()
  t.match(
    await client.post(url, body(third, 1), { by: 'key', key: own }),
    { status: 200 },
    'by its key',
  )
  const refused = await client.finalize(
    await client.order(['a.example.com']),
    ['a.example.com'],
    keys,
  )
  t.match(refused, problem(400, 'badPublicKey'), 'whose key is compromised from then on')
  const revoked = await service.store.listRevoked(service.ca.intermediate().certificate, NOW)
  t.strictSame(revoked.map(({ reason }) => reason).sort(), [
    'keyCompromise',
    'keyCompromise',
    'keyCompromise',
    'superseded',
    'unspecified',
    'unspecified',
  ])
})

t.test('only what the embedded CA has signed comes with its root', async (t) => {
  const { client, service } = await startAcme(t)
  const names = ['a.example.com']
  const [own] = (await client.obtain(names)) as [Buffer]
  const theirs = await foreignCa(NOW)
  const { der } = signBy(theirs, names, NOW)
  const { serialNumber, notBefore, notAfter } = parseCertificate(der)
  const issued = { certificate: der, chain: theirs.chain, serialNumber, notBefore, notAfter, names }
  const rest = { keyType: 'p256', sealedKey: null, csr: null, renewAt: null } as const
  await service.store.addCertificate(
    // An issuer may have a name that begins like that of the embedded CA.
    { ...issued, ...rest, requestKey: 'theirs', issuer: 'ca-of-others', fetchedAt: NOW },
    { at: NOW, action: 'issue', actor: 'system', names },
  )
  for (const [certificate, count] of [
    [own, 2],
    [der, 1],
  ] as const) {
    const url = client.at(`/acme/certificate/${parseCertificate(certificate).fingerprint256}`)
    const { status, headers } = await client.post(url)
    t.equal(status, 200)
    t.equal([headers.link].flat().length, count)
    t.equal((await client.post(`${url}/1`)).status, count === 2 ? 200 : 404)
  }
})

t.test('a revocation leaves a newer certificate for the same key', async (t) => {
  const { client, service } = await startAcme(t)
  const keys = generateP256()
  const [first] = (await client.obtain(['a.example.com'], {}, keys)) as [Buffer]
  const [second] = await client.obtain(['a.example.com'], { replaces: renewalId(first) }, keys)
  const certificate = first.toString('base64url')
  t.equal((await client.post(client.at('/acme/revoke-cert'), { certificate })).status, 200)
  const [held] = await service.store.list({ after: 0, limit: 10 })
  t.strictSame(held?.certificate, new Uint8Array(second as Buffer))
})

t.test(
  'renewal information tells a window ahead, and one that has passed after a revocation',
  async (t) => {
    const { client } = await startAcme(t)
    const [leaf] = (await client.obtain(['a.example.com'])) as [Buffer]
    const at = (id: string) => client.get(client.at(`/acme/renewal-info/${id}`))
    const id = renewalId(leaf) ?? ''
    const { notBefore, notAfter } = parseCertificate(leaf)
    const { headers, body } = await at(id)
    const [start, end] = [body.suggestedWindow.start, body.suggestedWindow.end].map(Date.parse) as [
      number,
      number,
    ]
    t.ok(start > NOW + DAY && end - start > HOUR && end < notAfter)
    t.equal(end, notBefore + (notAfter - notBefore) / 2)
    t.equal(headers['retry-after'], '21600')
    await client.post(client.at('/acme/revoke-cert'), { certificate: leaf.toString('base64url') })
    const revoked = (await at(id)).body.suggestedWindow
    t.strictSame([revoked.start, revoked.end].map(Date.parse), [NOW - HOUR, NOW])
    t.match(await at('AAAA.AQ'), problem(404, 'malformed'))
    const [, serial] = id.split('.')
    t.match(await at(`AAAA.${serial}`), problem(404, 'malformed'), 'of another authority')
    for (const wrong of ['x', 'AAAA', `${id}=`, `${id}.x`, 'AAAA.AA'])
      t.match(await at(wrong), problem(400, 'malformed'), wrong)
  },
)
