import { startChild } from './harness/child.ts'
import { compare, type Effort } from './harness/compare.ts'
import type { Load, LoadResult, RequestsId } from './harness/load-generator.ts'
import { atLeast, type Row } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { checkRequest, logoutRequest, sessionTokens, visitorCookies } from './harness/visitors.ts'

const VISITORS = 1_000
const LOGOUTS_PER_SECOND = 1_000
/** Sessions that end; when all have, the rest of the logouts find nobody signed in. */
const LEAVING = 20_000

/** The rate of checks while people sign out beside them, against the rate without. */
export async function* logouts(effort: Effort): AsyncGenerator<Row> {
  const cookies = visitorCookies(VISITORS + LEAVING)
  const tokens = sessionTokens(VISITORS + LEAVING)
  const checks = cookies.map((cookie) => checkRequest(cookie))
  const { value, ratio } = await compare(async () => {
    const server = await startChild<ServerReady>('../sides/forward-auth.ts', {
      core: 0,
      args: ['production', String(VISITORS + LEAVING)],
    })
    // One process drives both, as two would take the second core from each other.
    const generator = await startChild('./load-generator.ts', { core: 1 })
    const loadOf = async (requests: readonly string[]) => {
      const id = await generator.call<RequestsId>(requests)
      return { ...server.ready, connections: 64, requests: id }
    }
    const drive = (load: Load) => generator.call<LoadResult>(load)
    const checking = await loadOf(checks.slice(0, VISITORS))
    const opening = await loadOf(checks.slice(VISITORS))
    const leaving = await loadOf(tokens.slice(VISITORS).map(logoutRequest))
    // Who signs out has opened a page before.
    for (let opened = 0; opened < LEAVING; )
      opened += (await drive({ ...opening, ms: 500 })).answers
    return {
      measure: {
        alone: async (ms: number) => rateOf(await drive({ ...checking, ms })),
        async beside(ms: number) {
          const beside = { ...leaving, ms, rate: LOGOUTS_PER_SECOND }
          const result = await drive({ ...checking, ms, beside })
          const { p99 } = result.beside!
          console.error(
            `${Math.round(rateOf(result.beside!))} logouts/s, p99 ${Math.round(p99)} ms`,
          )
          return rateOf(result)
        },
      },
      stop: async () => {
        await Promise.all([server.stop(), generator.stop()])
      },
    }
  }, effort)
  yield atLeast({
    name: `check: beside ${LOGOUTS_PER_SECOND} logouts a second / without`,
    value: value('beside'),
    unit: 'req/s',
    baseline: value('alone'),
    ratio: ratio('beside', 'alone'),
    target: 0.8,
    noise: effort.noise,
  })
}

const rateOf = ({ answers, seconds }: LoadResult) => answers / seconds
