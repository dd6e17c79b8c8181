import { buildCsr, generateP256, toPem } from '@gatehouse/pki'
import { compare, type Effort } from './harness/compare.ts'
import { certificateRequest, startServers, type Target } from './harness/http.ts'
import { atMost, compared, type Row, stated } from './harness/rows.ts'
import { startLeafSides } from './leaf.ts'

const FLOOR = 'raw key pair and signature'

/** A new certificate for every request: key, leaf, sealed, audited and on the disk before the answer. */
export async function* issue(effort: Effort): AsyncGenerator<Row> {
  const { value, ratio } = await compare(async () => {
    const servers = await startServers({ durable: issuing(), 'no store': issuing('no-store') })
    const floor = await startLeafSides([FLOOR])
    return {
      measure: { ...servers.measure, ...floor.measure },
      stop: async () => {
        await Promise.all([servers.stop(), floor.stop()])
      },
    }
  }, effort)

  const common = { value: value('durable'), unit: '/s' }
  yield compared({
    ...common,
    name: 'issue: new certificates over HTTP, durable / raw key pair and signature',
    baseline: value(FLOOR),
    ratio: ratio('durable', FLOOR),
  })
  yield compared({
    ...common,
    name: 'issue: new certificates over HTTP, durable / the same without a store',
    baseline: value('no store'),
    ratio: ratio('durable', 'no store'),
  })
  yield await overTls(effort)
}

/** What a signature of the caller's costs that is verified, against a key that is made here. */
export async function* csr(effort: Effort): AsyncGenerator<Row> {
  const request = toPem('CERTIFICATE REQUEST', buildCsr(generateP256(), []))
  const target = (measured: Target['measured'], pem?: string): Target => ({
    server: 'cert-service',
    requests: [certificateRequest('n########.example.com', pem)],
    ...(measured && { measured }),
  })
  const { value, ratio } = await compare(
    () =>
      startServers({
        csr: target('p50 alone', request),
        'own key': target('p50 alone'),
        'csr, CPU': target('per cpu second', request),
        'own key, CPU': target('per cpu second'),
      }),
    effort,
  )
  yield atMost({
    name: 'csr: a certificate for a CSR / a key and certificate, p50',
    value: value('csr'),
    unit: 'ms',
    baseline: value('own key'),
    ratio: ratio('csr', 'own key'),
    target: 1.3,
    noise: effort.noise,
  })
  yield compared({
    name: 'csr: CPU time of a certificate for a CSR / of a key and certificate',
    value: 1000 / value('csr, CPU'),
    unit: 'ms',
    baseline: 1000 / value('own key, CPU'),
    ratio: ratio('own key, CPU', 'csr, CPU'),
  })
}

async function overTls(effort: Effort): Promise<Row> {
  const { value } = await compare(() => startServers({ https: issuing('tls') }), effort)
  return stated('issue: new certificates over HTTPS, durable', value('https'), '/s')
}

function issuing(...args: string[]): Target {
  return {
    server: 'cert-service',
    args,
    requests: [certificateRequest('n########.example.com')],
    measured: 'per second',
  }
}
