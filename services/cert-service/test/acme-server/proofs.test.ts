import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'
import { generateP256, parseName, toPem } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import {
  criticalExtension,
  encode,
  extension,
  OID,
  octets,
  subjectAltName,
} from '../../../../packages/pki/src/der.ts'
import {
  createSerial,
  createSigner,
  distinguishedName,
  signCertificate,
} from '../../../../packages/pki/src/signer.ts'
import { createProver } from '../../src/acme-server/proofs.ts'

const ANSWER = 'token.thumbprint'
const DIGEST = hash('sha256', ANSWER, 'buffer')

async function portOf(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

function proverAt(t: Test, port: number): ReturnType<typeof createProver> {
  const ports = { 'http-01': port, 'tls-alpn-01': port }
  const prover = createProver({ isOpen: () => true, isOwn: () => false, ports })
  t.teardown(() => prover.close())
  return prover
}

interface Answered {
  readonly digest?: Buffer
  readonly names?: readonly string[]
  readonly isCritical?: boolean
}

/** What a device has to answer with, unless told otherwise. */
function certificateWith({
  digest = DIGEST,
  names = ['localhost'],
  isCritical = true,
}: Answered): TlsOptions {
  const key = generateP256()
  const subject = encode(distinguishedName('device'))
  const make = isCritical ? criticalExtension : extension
  const certificate = signCertificate(createSigner(subject, Buffer.alloc(20), key.privateKey), {
    serial: createSerial(Date.now()),
    subject,
    spki: key.spki,
    notBefore: Date.now() - 3_600_000,
    notAfter: Date.now() + 3_600_000,
    extensions: [
      subjectAltName(names.map(parseName), false),
      make(OID.acmeIdentifier, octets(digest)),
    ],
  })
  return { cert: toPem('CERTIFICATE', certificate), key: toPem('PRIVATE KEY', key.pkcs8) }
}

t.test('what a device answers by tls-alpn-01 (RFC 8737 section 3)', async (t) => {
  const right = { ALPNProtocols: ['acme-tls/1'] }
  for (const [why, options, isProven] of [
    ['as it has to be', { ...certificateWith({}), ...right }, true],
    ['without the protocol', certificateWith({}), false],
    [
      'the extension is not critical',
      { ...certificateWith({ isCritical: false }), ...right },
      false,
    ],
    ['two names', { ...certificateWith({ names: ['localhost', 'a.localhost'] }), ...right }, false],
    ['another name', { ...certificateWith({ names: ['a.localhost'] }), ...right }, false],
    ['another digest', { ...certificateWith({ digest: Buffer.alloc(32) }), ...right }, false],
  ] as const) {
    const server = createTlsServer(options)
    const prover = proverAt(t, await portOf(t, server))
    const problem = await prover.check(parseName('localhost'), 'tls-alpn-01', ANSWER)
    t.equal(problem?.type, isProven ? undefined : 'incorrectResponse', why)
  }
})

t.test('a device is asked once for all tries at a time', async (t) => {
  let asked = 0
  const server = createServer((_request, response) => {
    asked += 1
    setImmediate(() => response.end(ANSWER))
  })
  const prover = proverAt(t, await portOf(t, server))
  const tries = Array.from({ length: 20 }, () =>
    prover.check(parseName('localhost'), 'http-01', ANSWER),
  )
  t.strictSame(new Set(await Promise.all(tries)), new Set([undefined]))
  t.equal(asked, 1)
  await prover.check(parseName('localhost'), 'http-01', ANSWER)
  t.equal(asked, 2, 'and again for a later one')
})
