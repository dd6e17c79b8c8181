import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { settingsFor } from '../../../examples/quickstart/test/program.ts'
import { ROOT } from '../markdown.ts'

const PATIENCE = 60_000

/** The processes whose environment names that folder. */
function processesOf(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`GATEHOUSE_DIR=${folder}`)
    } catch {
      // It has ended, or is not ours.
      return false
    }
  })
}

async function readyOf(child: ChildProcess): Promise<string> {
  let printed = ''
  for await (const part of child.stdout ?? []) {
    printed += part
    if (printed.includes('Ctrl-C')) break
  }
  return printed
}

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  t.test(`npm start ended by ${signal} leaves no process`, async (t) => {
    const folder = join(t.testdir(), 'gatehouse')
    const env = { ...process.env, ...(await settingsFor(folder)) }
    const child = spawn('npm', ['start'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() =>
      processesOf(folder).forEach((pid) => void process.kill(Number(pid), 'SIGKILL')),
    )
    const exited = once(child, 'exit')
    t.match(await readyOf(child), 'https://app.gatehouse.localhost')
    t.ok(processesOf(folder).length > 2, 'npm, what it runs, and the demo')
    child.kill(signal)
    await exited
    for (const start = Date.now(); Date.now() - start < PATIENCE; await setTimeout(100))
      if (processesOf(folder).length === 0) break
    t.same(processesOf(folder), [])
  })
