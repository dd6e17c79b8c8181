import { compare, type Effort } from './harness/compare.ts'
import { httpRequest, startServers } from './harness/http.ts'
import { ALGORITHMS, startIssuer } from './harness/issuer.ts'
import { compared, type Row } from './harness/rows.ts'

const KEY = 'correct-horse-battery-staple'
const CALLERS = 200

/** A route behind a warm credential against the same route without: both get the same requests. */
export async function* gate(effort: Effort): AsyncGenerator<Row> {
  const issuer = await startIssuer()
  yield await compareGate('API key', ['psk', KEY], [`APIKey ${KEY}`], effort)
  for (const algorithm of ALGORITHMS) {
    const credentials = issuer.tokens(algorithm, CALLERS).map((token) => `Bearer ${token}`)
    yield await compareGate(`${algorithm} token`, ['jwt', issuer.url], credentials, effort)
  }
  issuer.close()
}

async function compareGate(
  credential: string,
  args: string[],
  credentials: string[],
  effort: Effort,
): Promise<Row> {
  const requests = credentials.map((authorization) =>
    httpRequest('GET', '/reports', { authorization }),
  )
  const { value, ratio } = await compare(
    () =>
      startServers({
        open: { server: 'gate', args: ['open'], requests },
        guarded: { server: 'gate', args, requests },
      }),
    effort,
  )
  return compared({
    name: `gate: route behind a warm ${credential} / same route without`,
    value: value('guarded'),
    unit: 'req/s',
    baseline: value('open'),
    ratio: ratio('guarded', 'open'),
  })
}
