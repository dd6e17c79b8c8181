import type { Clock } from '@gatehouse/service-kit/clock'
import type { ReRead } from './provider.ts'

/** More at once make a provider slower, not faster. */
const AT_ONCE = 8
const FIRST_PAUSE_MS = 5_000
const LONGEST_PAUSE_MS = 60_000

/** Never rejects. */
type Ask = () => Promise<ReRead>
type Fault = Extract<ReRead, { kind: 'fault' }>

/**
 * Asks one provider about people again: some at once, the others in line. After an outage it pauses,
 * longer each time, and then lets one through; whoever comes meanwhile gets the fault without a request.
 */
export function createThrottle({ now }: Clock): (ask: Ask) => Promise<ReRead> {
  const line: (() => void)[] = []
  let running = 0
  let outage: { readonly fault: Fault; readonly at: number; readonly pause: number } | undefined
  let isProbed = false

  function pausing(): Fault | undefined {
    const age = outage ? now() - outage.at : 0
    // A negative age, after the clock was set back, does not extend the pause.
    return outage && (isProbed || (age >= 0 && age < outage.pause)) ? outage.fault : undefined
  }

  async function askNow(ask: Ask): Promise<ReRead> {
    const before = outage
    isProbed = before !== undefined
    const answer = await ask()
    if (before) isProbed = false
    if (!isOutage(answer)) outage = undefined
    // Of those that ran at once, only the first counts.
    else if (outage === before) {
      const pause = before ? Math.min(LONGEST_PAUSE_MS, before.pause * 2) : FIRST_PAUSE_MS
      outage = { fault: { kind: 'fault', error: answer.error, isUsed: false }, at: now(), pause }
    }
    return answer
  }

  return async (ask) => {
    const fault = pausing()
    if (fault) return fault
    if (running < AT_ONCE) running++
    // Who leaves hands the place on.
    else await new Promise<void>((resolve) => line.push(resolve))
    const answer = pausing() ?? (await askNow(ask))
    const next = line.shift()
    if (next) next()
    else running--
    return answer
  }
}

/** Other faults may be those of one person. */
function isOutage(answer: ReRead): answer is Fault {
  return answer.kind === 'fault' && answer.error.code === 'FWA_PROVIDER_UNREACHABLE'
}
