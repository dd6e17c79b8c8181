import { type Clock, sleep } from '../clock.ts'
import { AcmeError } from '../errors.ts'
import type { Target, View } from './lookup.ts'
import { RCODE, TYPE } from './message.ts'

const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000

/**
 * Waits until every name server that answers has the text. One that is silent does not hold up the
 * others, as a CA asks another one too.
 *
 * @throws AcmeError `ACME_DNS_PROPAGATION`, `ACME_DNS_UNREACHABLE`
 */
export async function awaitPropagation(
  { name, views }: Target,
  text: string,
  options: { readonly clock: Clock; readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, timeoutMs, signal } = options
  const deadline = clock.now() + timeoutMs
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    const states = await Promise.all(views.map((view) => look(view, name, text, signal)))
    const lacking = views.filter((_, index) => states[index] === 'lacks')
    const isThere = states.includes('has')
    if (isThere && lacking.length === 0) return
    if (clock.now() + pause > deadline) throw timedOut(name, lacking)
    await sleep(clock, pause, signal)
  }
}

async function look(view: View, name: string, text: string, signal: AbortSignal) {
  try {
    const { flags, answers } = await view.ask({ name, type: TYPE.TXT }, signal)
    const isThere = answers.some((record) => record.type === TYPE.TXT && record.value === text)
    return isThere && (flags & 0x0f) === RCODE.NOERROR ? 'has' : 'lacks'
  } catch {
    signal.throwIfAborted()
    return 'silent'
  }
}

function timedOut(name: string, lacking: readonly View[]): AcmeError {
  if (lacking.length === 0)
    return new AcmeError('ACME_DNS_UNREACHABLE', `no name server answers for ${name}`)
  const servers = lacking.map((view) => view.name).join(', ')
  return new AcmeError('ACME_DNS_PROPAGATION', `${name} is still without our text at ${servers}`)
}
