const FLUSH_BYTES = 65_536
const FLUSH_MS = 100
const MAX_PATH = 1_024
/** Of each further field, of which there are three at most. */
const MAX_FIELD = 256
/** What the longest line has room in: a character of a path or field is six bytes at most. */
const MAX_LINE = 12_288

/** One finished request. */
export interface Access {
  readonly time: number
  readonly requestId: string
  readonly traceId: string | undefined
  readonly ip: string
  readonly method: string
  readonly url: string
  readonly status: number
  readonly durationMs: number
  /** More about the request, each as a member of the line. */
  readonly fields?: Readonly<Record<string, string | undefined>> | undefined
}

/**
 * Access lines by hand and in batches, since a logger call per request costs a quarter of what a
 * small answer does; as bytes, since a text of many parts is slow to put together later on. A line is
 * at most 100 ms late; `flush` writes what waits.
 */
export function createAccessLog(write: (lines: string) => void) {
  const lines = Buffer.allocUnsafe(FLUSH_BYTES + MAX_LINE)
  let end = 0
  let timer: NodeJS.Timeout | undefined

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (end > 0) write(lines.toString('utf8', 0, end))
    end = 0
  }
  function add(access: Access): void {
    end += lines.write(formatAccess(access), end)
    if (end > FLUSH_BYTES) flush()
    else timer ??= setTimeout(flush, FLUSH_MS).unref()
  }
  return { add, flush }
}

/** Without the query, which may carry secrets. What a client wrote is quoted, the rest cannot need it. */
function formatAccess(access: Access): string {
  const { time, requestId, traceId, ip, method, url, status, durationMs } = access
  const end = url.indexOf('?')
  const path = JSON.stringify(url.slice(0, end < 0 ? MAX_PATH : Math.min(end, MAX_PATH)))
  const trace = traceId ? `,"trace_id":"${traceId}"` : ''
  const more = access.fields ? formatFields(access.fields) : ''
  const ms = Math.round(durationMs * 1_000) / 1_000
  return `{"level":30,"time":${time},"reqId":"${requestId}"${trace},"ip":${JSON.stringify(ip)},"method":"${method}","path":${path},"status":${status},"ms":${ms}${more},"msg":"request"}\n`
}

function formatFields(fields: NonNullable<Access['fields']>): string {
  let text = ''
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined) text += `,"${name}":${JSON.stringify(value.slice(0, MAX_FIELD))}`
  return text
}
