import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { assertQuiet } from './quiet.ts'

type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string }

/** A program that runs until the test ends, and its log. */
export interface Running {
  readonly child: ChildProcess
  readonly lines: readonly LogLine[]
  /**
   * Resolves with the line that says this for the n-th time, from 1; with `path`, about that path.
   * Rejects if the program ends without it.
   */
  said(msg: string, nth?: number, path?: string): Promise<LogLine>
  /** Resolves when the program and all processes below it have ended. */
  readonly ended: Promise<{
    readonly code: number | null
    readonly signal: string | null
    readonly stderr: string
  }>
}

/** Starts Node with these arguments; its standard output is a log in JSON, which is to be quiet. */
export function startRunning(
  t: Test,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Running {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: LogLine[] = []
  assertQuiet(t, () => lines)
  const files = args.filter((arg) => existsSync(arg))
  const waiting = new Set<() => void>()
  const notify = () => {
    for (const check of waiting) check()
  }
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(JSON.parse(line))
    notify()
  })
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  let isOver = false
  // Processes below it hold its output open.
  const ended = once(child, 'close').then(([code, signal]) => {
    isOver = true
    notify()
    return { code, signal, stderr }
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
    // It would warn of what it lacks, if it is slow to end.
    const gone = files.filter((file) => !existsSync(file))
    if (gone.length > 0) t.threw(new Error(`${gone} went before its program: use testFolder`))
  })
  const said = (msg: string, nth = 1, path?: string) =>
    new Promise<LogLine>((resolve, reject) => {
      const check = () => {
        const line = lines.filter(
          (one) => one.msg === msg && (path === undefined || one.path === path),
        )[nth - 1]
        if (!line && !isOver) return
        waiting.delete(check)
        if (line) resolve(line)
        else
          reject(new Error(`it ended before it said "${msg}": ${stderr} ${JSON.stringify(lines)}`))
      }
      waiting.add(check)
      check()
    })
  return { child, lines, said, ended }
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** Asks over one connection, again and again; without an agent over a new one each time. */
export async function ask(
  url: string | URL,
  { body, ...options }: RequestOptions & { readonly body?: string } = {},
): Promise<Answer> {
  const asked = request(url, { agent: false, ...options }).end(body)
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  const { statusCode = 0, headers } = response
  return { status: statusCode, headers, body: await text(response) }
}

/** Agents with one connection each, which go with the test. */
export function connections(t: Test, count: number): readonly Agent[] {
  const agents = Array.from({ length: count }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  t.teardown(() => {
    for (const agent of agents) agent.destroy()
  })
  return agents
}
