import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type TlsOptions } from 'node:tls'
import {
  createLeafSigner,
  createRoot,
  createSerial,
  generateP256,
  parseName,
  toPem,
} from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { probe } from '../src/probe.ts'

const now = Date.now()
const key = generateP256()
const leaf = createLeafSigner(await createRoot({ commonName: 'Root', now })).sign({
  ...{ spki: key.spki, keyType: key.type, names: [parseName('a.test')] },
  ...{ serial: createSerial(now), notBefore: now, notAfter: now + 86_400_000 },
})
const pair = { key: toPem('PRIVATE KEY', key.pkcs8), cert: toPem('CERTIFICATE', leaf) }

async function serve(t: Test, options: TlsOptions): Promise<number> {
  const server = createServer({ ...pair, ...options }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port
}

t.test('the certificate of a server is seen, whatever TLS it speaks and demands', async (t) => {
  for (const version of ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const)
    for (const requestCert of [false, true]) {
      const versions = { minVersion: version, maxVersion: version }
      const ciphers = 'DEFAULT@SECLEVEL=0'
      const port = await serve(t, { ...versions, ciphers, requestCert, rejectUnauthorized: true })
      const result = await probe({ address: '127.0.0.1', port, protocol: 'tls' })
      t.strictSame(result, { certificates: [Buffer.from(leaf)] }, `${version} ${requestCert}`)
    }
})
