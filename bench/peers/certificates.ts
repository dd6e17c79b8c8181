import { generateKeyPairSync, randomUUID, X509Certificate } from 'node:crypto'
import { buildCsr, generateP256, toPem } from '@gatehouse/pki'
import { createSigner } from 'fast-jwt'
import { BOUND, ORDERS, type Slice, startAcme } from '../acme-server.ts'
import { type Child, startChild } from '../harness/child.ts'
import { certificateRequest, httpRequest } from '../harness/http.ts'
import type { Load, LoadResult, RequestsId } from '../harness/load-generator.ts'
import { residentOf } from '../harness/program.ts'
import type { ServerReady } from '../harness/serve.ts'
import { type StepCa, startStepCa } from '../harness/step-ca.ts'
import type { Row } from './checks.ts'
import { type Drive, figureOf, measured, takeTurns } from './turns.ts'

/** Each allows one certificate, so there are more than one round can use. */
const TOKENS = 12_000
const PROVISIONER = 'bench'
const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
/** Asks for no names: those are in the request, or in the token. */
const CSR = toPem('CERTIFICATE REQUEST', buildCsr(generateP256(), []))

/** Certificates of the private CA, each on the disk before the answer, over HTTPS at both. */
export async function* certificates(stepCa: string, rounds: number): AsyncGenerator<Row> {
  const csr = new Map<string, number[]>()
  const acme = new Map<string, number[]>()
  const resident = new Map<string, number[]>()
  for (let round = 0; round < rounds; round++) {
    process.stderr.write('certificates for a CSR ...\n')
    await byCsr(stepCa, csr, resident)
    process.stderr.write('certificates by ACME ...\n')
    await byAcme(stepCa, acme)
  }
  const both = (of: ReadonlyMap<string, number[]>, own: string, its = 'step-ca') => ({
    Gatehouse: figureOf(of.get(own)),
    'step-ca': figureOf(of.get(its)),
  })
  yield ['certificate for a CSR', both(csr, 'Gatehouse')]
  yield ['certificate by ACME with http-01, 5 requests', both(acme, 'http-01')]
  yield [
    'certificate by ACME for a caller with rules, 3 requests',
    { Gatehouse: figureOf(acme.get('rules')) },
  ]
  yield ['resident memory after the certificates for a CSR, MiB', both(resident, 'Gatehouse')]
}

async function byCsr(
  program: string,
  figures: Map<string, number[]>,
  resident: Map<string, number[]>,
): Promise<void> {
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const own = await startChild<ServerReady>('../sides/cert-service.ts', { core: 0, args: ['tls'] })
  const key = { ...publicKey.export({ format: 'jwk' }), kid: PROVISIONER, alg: 'ES256', use: 'sig' }
  const peer = await startStepCa(program, 1, [{ type: 'JWK', name: PROVISIONER, key }])
  const requests = [certificateRequest('n########.example.com', CSR)]
  const sides = {
    Gatehouse: await driveOf(generator, { ...own.ready, pid: own.pid }, requests),
    'step-ca': await driveOf(generator, peer, signRequests(peer)),
  }
  await takeTurns(sides, figures)
  for (const [side, { pid }] of Object.entries({ Gatehouse: own, 'step-ca': peer }))
    resident.set(side, [...(resident.get(side) ?? []), residentOf(pid)])
  await Promise.all([generator.stop(), own.stop(), peer.stop()])
}

async function driveOf(
  generator: Child,
  { port, pid, ca }: ServerReady & { readonly pid: number },
  requests: readonly string[],
): Promise<Drive> {
  const id = await generator.call<RequestsId>(requests)
  const load = { port, connections: 32, requests: id, ...(ca !== undefined && { ca }) }
  return measured(pid, async (ms) => {
    const asked: Load = { ...load, ms }
    return (await generator.call<LoadResult>(asked)).answers
  })
}

/** What the client of step-ca sends: the CSR, and a token for one name, which it signs with the key of a provisioner. */
function signRequests({ port, ca }: StepCa): string[] {
  const sign = createSigner({
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    ...({ algorithm: 'ES256', kid: PROVISIONER, expiresIn: 1_200_000 } as const),
    ...{ iss: PROVISIONER, aud: `https://127.0.0.1:${port}/1.0/sign` },
  })
  const sha = new X509Certificate(ca).fingerprint256.replaceAll(':', '').toLowerCase()
  const nbf = Math.floor(Date.now() / 1_000)
  return Array.from({ length: TOKENS }, (_, n) => {
    const name = `n${n}.example.com`
    const ott = sign({ sub: name, sans: [name], sha, nbf, jti: randomUUID() })
    return httpRequest('POST', '/1.0/sign', { body: { csr: CSR, ott } })
  })
}

async function byAcme(program: string, figures: Map<string, number[]>): Promise<void> {
  const { external: _, ...unbound } = BOUND
  const open = { ...unbound, names: 'ip' } as const
  const step = { ...open, directory: '/acme/acme/directory' }
  const last = new Map<string, Slice>()
  const noting = (side: string) => ({ onResult: (slice: Slice) => void last.set(side, slice) })
  const { measure, stop } = await startAcme({
    rules: { ...ORDERS, ...noting('rules') },
    'http-01': { ...ORDERS, clients: open, args: ['tls', 'proofs'], ...noting('http-01') },
    'step-ca': { ...ORDERS, server: program, clients: step, ...noting('step-ca') },
  })
  const drives = Object.entries(measure).map(([side, drive]): [string, Drive] => [
    side,
    async (ms) => {
      await drive(ms)
      return last.get(side)!
    },
  ])
  await takeTurns(Object.fromEntries(drives), figures)
  await stop()
}
