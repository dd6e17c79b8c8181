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

const OURS = /\/(packages|services)\/[^/]+\/src\//
const LOADED = /^file:(?!.*\/test\/)/

/** How many blocks of our source run, as V8 counts them: work, whatever the machine is busy with. */
export function workOf(run: () => unknown): number {
  takeCounts(OURS)
  run()
  return takeCounts(OURS)
}

/**
 * The same of all that is loaded, libraries too, and one for each character that a built-in reads, where V8 counts
 * nothing.
 */
export async function wholeWorkOf(run: () => Promise<unknown>): Promise<number> {
  takeCounts(LOADED)
  using builtIns = countBuiltIns()
  await run()
  return builtIns.read() + takeCounts(LOADED)
}

function takeCounts(files: RegExp): number {
  let work = 0
  session.post('Profiler.takePreciseCoverage', (_error, covered) => {
    for (const { url, functions } of (covered as unknown as Coverage).result)
      if (files.test(url))
        for (const { ranges } of functions) for (const { count } of ranges) work += count
  })
  return work
}

/** Characters that Unicode orders among each other, once a text is taken apart. */
const MARKS = /[\p{M}\uff9e\uff9f]+/gu
const { matchAll } = String.prototype

/** To order them, each mark is compared with those before it. */
function orderingOf(text: string): number {
  let count = text.length
  for (const [run] of matchAll.call(text, MARKS)) count += run.length ** 2
  return count
}

type Cost = (text: string, given: readonly unknown[], result: unknown) => number

const whole: Cost = ({ length }) => length
const upToFound: Cost = ({ length }, [sought, from = 0], found) =>
  (found === -1 ? length : Number(found) + String(sought).length) - Number(from)

/** Built-ins that read a text: their own, or what they are given. */
const READERS: readonly (readonly [owner: object, cost: Cost, ...names: string[]])[] = [
  [String.prototype, orderingOf, 'normalize'],
  [String.prototype, upToFound, 'indexOf'],
  [
    String.prototype,
    whole,
    'includes',
    'localeCompare',
    'match',
    'replace',
    'replaceAll',
    'search',
  ],
  [String.prototype, whole, 'split', 'toLowerCase', 'toUpperCase', 'trim'],
  [RegExp.prototype, whole, 'test'],
  [globalThis, whole, 'decodeURIComponent', 'encodeURIComponent', 'URL'],
  [URL, whole, 'canParse', 'parse'],
]

function countBuiltIns() {
  let count = 0
  const originals: (() => void)[] = []
  for (const [owner, cost, ...names] of READERS)
    for (const name of names) {
      const plain = Object.getOwnPropertyDescriptor(owner, name) ?? {}
      const value = new Proxy(plain.value, {
        apply(call, self, given) {
          const result = Reflect.apply(call, self, given)
          count += cost(String(owner === String.prototype ? self : given[0]), given, result)
          return result
        },
        construct(call, given, target) {
          count += cost(String(given[0]), given, undefined)
          return Reflect.construct(call, given, target)
        },
      })
      Object.defineProperty(owner, name, { ...plain, value })
      originals.push(() => Object.defineProperty(owner, name, plain))
    }
  return {
    read: () => count,
    [Symbol.dispose]() {
      for (const put of originals) put()
    },
  }
}
