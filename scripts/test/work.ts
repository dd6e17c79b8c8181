import { Session } from 'node:inspector'

interface Coverage {
  readonly result: readonly {
    readonly url: string
    readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[]
  }[]
}

// From the start, so that every function is compiled with counters.
const session = new Session()
session.connect()
session.post('Profiler.enable')
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })

/** How many blocks of our source run, as V8 counts them: work, whatever the machine is busy with. */
export function workOf(run: () => unknown): number {
  takeCounts()
  run()
  return takeCounts()
}

function takeCounts(): number {
  let work = 0
  session.post('Profiler.takePreciseCoverage', (_error, covered) => {
    for (const { url, functions } of (covered as unknown as Coverage).result)
      if (/\/(packages|services)\/[^/]+\/src\//.test(url))
        for (const { ranges } of functions) for (const { count } of ranges) work += count
  })
  return work
}
