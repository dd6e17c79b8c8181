import { type Clock, sleep } from '@gatehouse/net'
import { AcmeError } from '../errors.ts'
import type { NameServer, Target } from './lookup.ts'
import { RCODE, rcodeOf } from './message.ts'

const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000

/**
 * Waits until every name server that answers has the text. A server that does not answer is
 * skipped, as a CA skips it too.
 */
export async function awaitPropagation(
  { name, servers }: Target,
  text: string,
  { clock, timeoutMs, signal }: { clock: Clock; timeoutMs: number; signal: AbortSignal },
): Promise<void> {
  const deadline = clock.now() + timeoutMs
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    const states = await Promise.all(servers.map((server) => look(server, name, text, signal)))
    const missing = servers.filter((_, index) => states[index] === 'missing')
    if (states.includes('found') && missing.length === 0) return
    if (clock.now() + pause > deadline) throw timedOut(name, missing)
    await sleep(clock, pause, signal)
  }
}

async function look(server: NameServer, name: string, text: string, signal: AbortSignal) {
  try {
    const answer = await server.ask({ name, type: 'TXT' }, signal)
    const isThere = answer.answers.some(({ type, value }) => type === 'TXT' && value === text)
    return isThere && rcodeOf(answer) === RCODE.NOERROR ? 'found' : 'missing'
  } catch {
    signal.throwIfAborted()
    return 'silent'
  }
}

function timedOut(name: string, missing: readonly NameServer[]): AcmeError {
  if (missing.length === 0)
    return new AcmeError('ACME_DNS_UNREACHABLE', `no name server answers for ${name}`)
  const servers = missing.map((server) => server.name).join(', ')
  return new AcmeError('ACME_DNS_PROPAGATION', `${name} still lacks the TXT record at ${servers}`)
}
