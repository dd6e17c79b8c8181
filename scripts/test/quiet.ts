import { createLogger } from '@gatehouse/service-kit/telemetry'

/** A line of a log: its level as a number, and what tells it from others. */
interface LogLine {
  readonly level?: unknown
  readonly msg?: unknown
  readonly code?: unknown
  readonly err?: unknown
}

const WARN = 40
const expectedBy = new WeakMap<object, readonly string[]>()

/** Names the lines at warn or above that a test and those in it cause: a code, or a part of the message. */
export function expectWarnings(t: object, ...lines: readonly string[]): void {
  if (lines.includes(''))
    throw new Error('an empty text would fit every line: name those that are meant')
  expectedBy.set(t, [...(expectedBy.get(t) ?? []), ...lines])
}

/**
 * Has a test fail at its end if its service has logged a line at warn or above that {@link expectWarnings}
 * does not name: nothing is to be said when nothing is wrong.
 */
export function assertQuiet(
  t: { teardown(fn: () => unknown): unknown; threw(error: Error): unknown },
  log: () => readonly (LogLine | string)[],
): void {
  t.teardown(() => {
    const expected = expectedFrom(t)
    for (const entry of log()) {
      const line: LogLine = typeof entry === 'string' ? JSON.parse(entry) : entry
      const { code } = (line.err ?? {}) as { code?: unknown }
      const told = [line.code, code, line.msg].filter((part) => part !== undefined).join(' ')
      if (Number(line.level) >= WARN && !expected.some((part) => told.includes(part)))
        // Thrown, it would keep what was started before from being ended.
        t.threw(new Error(`the log warns: ${told}`))
    }
  })
}

/** The log of a service in this process, which is to be quiet, and its lines in JSON. */
export function quietLog(
  t: Parameters<typeof assertQuiet>[0],
  level: 'debug' | 'info' = 'info',
): { readonly log: ReturnType<typeof createLogger>; readonly logged: string[] } {
  const logged: string[] = []
  assertQuiet(t, () => logged)
  const stream = { write: (line: string) => void logged.push(line) }
  return { log: createLogger({ level, format: 'json', name: 'test', stream }), logged }
}

/** What a test expects, and those around it. */
function expectedFrom(t: object): readonly string[] {
  const { parent } = t as { parent?: object }
  return [...(expectedBy.get(t) ?? []), ...(parent ? expectedFrom(parent) : [])]
}
