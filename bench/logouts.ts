import { startChild } from './harness/child.ts'
import { compare, type Effort } from './harness/compare.ts'
import type { Load, LoadResult, RequestsId } from './harness/load-generator.ts'
import { compared, type Row } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { checkRequest, logoutRequest, visitorCookies } from './harness/visitors.ts'

const VISITORS = 1_000
const LOGOUTS_PER_SECOND = 1_000
/** Sessions that end; when all have, the rest of the logouts find nobody signed in. */
const LEAVING = 12_000

/** The rate of checks while people sign out beside them, against the rate without. */
export async function logouts(effort: Effort): Promise<Row[]> {
  const cookies = await visitorCookies(VISITORS + LEAVING)
  const checks = cookies.slice(0, VISITORS).map((cookie) => checkRequest(cookie))
  const leaving = cookies.slice(VISITORS).map(logoutRequest)
  const pages = cookies.slice(VISITORS).map((cookie) => checkRequest(cookie))

  const { value, ratio } = await compare(async () => {
    const server = await startChild<ServerReady>('../sides/forward-auth.ts', {
      core: 0,
      args: ['production'],
    })
    const [checking, signingOut, opening] = await Promise.all(
      [checks, leaving, pages].map(async (requests) => {
        const child = await startChild('./load-generator.ts', { core: 1 })
        return { child, requests: await child.call<RequestsId>(requests) }
      }),
    )
    const drive = async (side: typeof checking, load: Pick<Load, 'ms' | 'connections' | 'rate'>) =>
      side!.child.call<LoadResult>({ ...server.ready, ...load, requests: side!.requests })
    const rateOf = ({ answers, seconds }: LoadResult) => answers / seconds
    // Who signs out has opened a page before.
    for (let opened = 0; opened < LEAVING; )
      opened += (await drive(opening, { ms: 500, connections: 64 })).answers
    const alone = (ms: number) => drive(checking, { ms, connections: 64 }).then(rateOf)
    return {
      measure: {
        alone,
        async beside(ms: number) {
          const load = { ms, connections: 32, rate: LOGOUTS_PER_SECOND }
          const [rate, out] = await Promise.all([alone(ms), drive(signingOut, load)])
          console.error(`${Math.round(rateOf(out))} logouts/s, p99 ${Math.round(out.p99)} ms`)
          return rate
        },
      },
      stop: async () => {
        const children = [checking, signingOut, opening].map((side) => side!.child)
        await Promise.all([server, ...children].map((each) => each.stop()))
      },
    }
  }, effort)
  return [
    compared({
      name: `check: beside ${LOGOUTS_PER_SECOND} logouts a second / without`,
      value: value('beside'),
      unit: 'req/s',
      baseline: value('alone'),
      ratio: ratio('beside', 'alone'),
    }),
  ]
}
