/** The time for which lines of a request wait for its last one, in ms. */
const PATIENCE = 1_000
/** Requests whose lines wait; those of further ones are printed at once. */
const MAX_WAITING = 1_000
/** The level `warn` of pino. */
const WARN = 40
/** Codes of failures that are expected, such as that of a provider which is down; not those of Node and Fastify. */
const EXPECTED = /^(?!ERR_|FST_)[A-Z]+_[A-Z_]+$/

type Fields = Readonly<Record<string, unknown>>

/** A line of the log, as JSON has it. */
interface Entry extends Fields {
  readonly level: number
  readonly msg?: string
  readonly reqId?: string
  readonly err?: { readonly code?: string; readonly message?: string }
}

interface TerminalOptions {
  /** Receives each line as pino-pretty takes it: all is in `msg`, but for an unexpected `err`. */
  write(line: string): void
  /** Returns what to do about a failure with this code. */
  readonly actionFor?: ((code: string) => string | undefined) | undefined
  later(then: () => void, ms: number): void
  /** Writes a text as a terminal may show it. */
  escaped(text: string): string
}

/**
 * Makes lines for people of JSON lines: one for a request with all that was logged about it, and one for a
 * failure that is expected, with its reason and what to do. Others keep their stack, and wait for nothing.
 */
export function createTerminalLines({ write, actionFor, later, escaped }: TerminalOptions) {
  const waiting = new Map<string, Entry[]>()
  const clean = (_: string, value: unknown) => (typeof value === 'string' ? escaped(value) : value)
  const print = (...entries: Entry[]) => write(`${JSON.stringify(lineOf(entries, actionFor))}\n`)
  function release(reqId: string): readonly Entry[] {
    const entries = waiting.get(reqId) ?? []
    waiting.delete(reqId)
    return entries
  }
  const flush = (reqId: string) => release(reqId).forEach((entry) => void print(entry))
  return {
    take(line: string): void {
      const entry: Entry = JSON.parse(line, clean)
      const { reqId, err, msg } = entry
      const entries = reqId === undefined ? undefined : waiting.get(reqId)
      if (reqId !== undefined && msg === 'request') print(...release(reqId), entry)
      else if (reqId === undefined || isUnexpected(err) || waiting.size >= MAX_WAITING) print(entry)
      else if (entries) entries.push(entry)
      else {
        waiting.set(reqId, [entry])
        later(() => flush(reqId), PATIENCE)
      }
    },
    flushAll: () => [...waiting.keys()].forEach(flush),
  }
}

const isUnexpected = (err: Entry['err']) => err !== undefined && !EXPECTED.test(err.code ?? '')

/** Writes entries that belong together as one line. The last entry of a request is its own. */
function lineOf(entries: readonly Entry[], actionFor: TerminalOptions['actionFor']): object {
  const level = Math.max(...entries.map(({ level }) => level))
  const { time, pid, msg = '', err, reqId, ...more }: Entry = Object.assign({}, ...entries)
  const { code = err?.code, detail, reason = detail, level: _, name: __, ...details } = more
  const unexpected = isUnexpected(err) ? err : undefined
  const [head, fields] = msg === 'request' ? splitRequest(details) : [msg, details]
  // What else was logged about a request; that it was refused shows in its status.
  const notes = entries.map(({ msg = '' }) => msg).filter((note) => !/^request|^$/.test(note))
  const summary = reason ?? (unexpected ? undefined : err?.message)
  const cause = [code, summary].filter(Boolean).join(': ')
  const action = level >= WARN ? actionFor?.(String(code)) : undefined
  const shown = { ...fields, ...(level >= WARN && { reqId }) }
  const text = [
    [head, ...(head === msg ? [] : notes), cause].filter(Boolean).join('; '),
    action && `(${action})`,
    ...Object.entries(shown).map(
      ([name, value]) => value !== undefined && `${name}=${textOf(value)}`,
    ),
  ]
  const line = text.filter(Boolean).join(' ').replaceAll('\n', ' ')
  return { level, time, pid, msg: line, err: unexpected }
}

/** The text and the fields of a request. The address is a field if no proxy names the client. */
function splitRequest({ method, path, status, ms, ip, ...fields }: Fields): [string, Fields] {
  const head = `${method} ${path} ${status} ${Math.round(Number(ms) * 10) / 10} ms`
  return [head, fields.clientAddress === undefined ? { ip, ...fields } : fields]
}

/** A value without quotes if it is a word. */
const textOf = (value: unknown) =>
  typeof value === 'string' && /^[^\s"={}]+$/.test(value) ? value : JSON.stringify(value)
