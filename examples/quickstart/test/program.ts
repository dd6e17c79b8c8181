import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { freePorts } from '../../../scripts/free-ports.ts'

const ARGV = ['--conditions=@gatehouse/source', join(import.meta.dirname, '../start.ts')]

/** Environment of the quickstart: where it listens and keeps its files. */
export type Settings = Readonly<Record<string, string>>

/** Two ports that are free now, and a folder. */
export async function settingsFor(folder: string): Promise<Settings> {
  const [https = '', certs = ''] = (await freePorts(2)).map(String)
  return { GATEHOUSE_HTTPS_PORT: https, GATEHOUSE_PORT: certs, GATEHOUSE_DIR: folder }
}

type Owner = Pick<Test, 'teardown'>

function run(t: Owner, settings: Settings): ChildProcess {
  const child = spawn(process.execPath, ARGV, { env: { ...process.env, ...settings } })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

/** Starts it and waits for what it prints. */
export async function start(t: Owner, settings: Settings) {
  const child = run(t, settings)
  const exited = once(child, 'exit')
  let printed = ''
  const ready = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (part) => {
        printed += part
        if (printed.includes('Ctrl-C')) resolve()
      })
  })
  const ended = exited.then(([code]) => Promise.reject(new Error(`ended with ${code}: ${printed}`)))
  await Promise.race([ready, ended])
  return {
    /** All output so far. */
    printed: () => printed,
    /** As Ctrl-C does; gives the exit code. */
    async stop(): Promise<unknown> {
      child.kill('SIGINT')
      ended.catch(() => {})
      const [code] = await exited
      return code
    },
  }
}

/** On Node lines that are not LTS yet oidc-provider begins with a warning of its own. */
const WARNING = /^oidc-provider WARNING: [^\n]*\n/

/** Runs it where it cannot run. */
export async function fail(t: Owner, settings: Settings) {
  const child = run(t, settings)
  const [err, [code]] = await Promise.all([
    text(child.stderr as NodeJS.ReadableStream),
    once(child, 'exit'),
  ])
  return { code, err: err.replace(WARNING, '') }
}
