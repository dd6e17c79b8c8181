import { globSync, readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = join(import.meta.dirname, '..')
/** Not the clocks of tests. */
const SOURCES = globSync('{packages,services}/*/src/**/*.ts', {
  cwd: ROOT,
  exclude: ['**/testing*'],
}).map((file) => [pathToFileURL(join(ROOT, file)).href, file])

/** A function of ours that ran: its script, and where in it the function begins and ends. */
interface Ran {
  readonly url: string
  readonly scriptId: string
  readonly startOffset: number
  readonly endOffset: number
}

declare global {
  /** Written by the breakpoints of {@link filesOf}. */
  var ranFiles: Set<string> | undefined
}

/**
 * The files of ours that something runs through, in the order in which the first function of each begins.
 * V8's precise coverage says which functions ran. It has no order, so the second run goes through
 * breakpoints on these functions that never pause and only take a note.
 *
 * @param run - is called twice, and has to do the same each time
 */
export async function filesOf(run: (time: number) => Promise<void>): Promise<string[]> {
  const session = new Session()
  session.connect()
  const scripts = new Map<string, string>()
  session.on('Debugger.scriptParsed', ({ params }) => void scripts.set(params.url, params.scriptId))
  try {
    await session.post('Debugger.enable')
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    await session.post('Profiler.takePreciseCoverage')
    await run(1)
    const { result } = await session.post('Profiler.takePreciseCoverage')
    await session.post('Profiler.stopPreciseCoverage')
    const ran = result.flatMap(({ url, scriptId, functions }) =>
      functions
        .filter(({ functionName, ranges: [range] }) => isFunction(functionName, range))
        .map(({ ranges: [range] }) => ({ url, scriptId, ...range }) as Ran),
    )
    const ours = ran.filter(({ url }) => SOURCES.some(([source]) => source === url))
    return await inOrder(session, ours, run)
  } finally {
    session.disconnect()
  }
}

/** Of the module itself the range begins at 0 and the name is empty. */
function isFunction(name: string, range: { startOffset: number; count: number } | undefined) {
  return range !== undefined && range.count > 0 && (name !== '' || range.startOffset > 0)
}

async function inOrder(
  session: Session,
  ran: readonly Ran[],
  run: (time: number) => Promise<void>,
): Promise<string[]> {
  globalThis.ranFiles = new Set()
  for (const each of ran) await note(session, each)
  await run(2)
  const files = [...globalThis.ranFiles]
  globalThis.ranFiles = undefined
  const all = new Set(ran.map(({ url }) => nameOf(url)))
  // Functions without a place for a breakpoint, such as an arrow function that V8 has inlined.
  return [...files, ...[...all].filter((file) => !files.includes(file))]
}

async function note(session: Session, { url, scriptId, startOffset, endOffset }: Ran) {
  const text = readFileSync(fileURLToPath(url), 'utf8')
  const { locations } = await session.post('Debugger.getPossibleBreakpoints', {
    start: { scriptId, ...positionOf(text, startOffset) },
    end: { scriptId, ...positionOf(text, endOffset) },
    restrictToFunction: true,
  })
  const [location] = locations
  if (!location) return
  const condition = `globalThis.ranFiles?.add(${JSON.stringify(nameOf(url))}), false`
  await session.post('Debugger.setBreakpoint', { location, condition })
}

function nameOf(url: string): string {
  return SOURCES.find(([source]) => source === url)?.[1] ?? url
}

function positionOf(text: string, offset: number) {
  const before = text.slice(0, offset)
  const lineNumber = before.split('\n').length - 1
  return { lineNumber, columnNumber: offset - (before.lastIndexOf('\n') + 1) }
}
