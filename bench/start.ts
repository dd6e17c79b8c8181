import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { bundle } from '../scripts/bundle.ts'
import { nodeCommand } from './harness/child.ts'
import { compare, type Effort } from './harness/compare.ts'
import { atMost, type Row } from './harness/rows.ts'
import { certServiceFiles, forwardAuthFiles } from './harness/service-files.ts'

const NODE_HTTP = fileURLToPath(new URL('sides/node-http.mjs', import.meta.url))
const SERVICES = { 'cert-service': certServiceFiles, 'forward-auth': forwardAuthFiles }
/** How many times as long as the least program: about a third of a second, so that nobody notices. */
const MAX_RATIO = 5

/** From the start of the process to listening, on one core, with a data folder that is there already. */
export async function* start(effort: Effort): AsyncGenerator<Row> {
  for (const service of Object.keys(SERVICES) as (keyof typeof SERVICES)[])
    yield await startOf(service, effort)
}

async function startOf(service: keyof typeof SERVICES, effort: Effort): Promise<Row> {
  const files = SERVICES[service]()
  const serve = ['serve', '--config', files.config]
  const bundled = await bundle(service)
  const { value, ratio } = await compare(
    async () => ({
      measure: {
        'node:http': () => startMs([NODE_HTTP]),
        bundle: () => startMs([bundled, ...serve]),
      },
      stop: async () => {},
    }),
    effort,
  )
  files.remove()

  return atMost({
    name: `start: ${service} as bundle / bare node:http`,
    value: value('bundle'),
    unit: 'ms',
    baseline: value('node:http'),
    ratio: ratio('bundle', 'node:http'),
    target: MAX_RATIO,
    noise: effort.noise,
  })
}

/** Milliseconds until a program says that it is ready. */
export async function startMs(args: readonly string[]): Promise<number> {
  const [command, ...pinned] = nodeCommand(0)
  const started = performance.now()
  const child = spawn(command, [...pinned, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const ready = await Promise.race([saysReady(child.stdout), exited])
  if (ready !== undefined) throw new Error(`${args.join(' ')} ended before it was ready`)
  const ms = performance.now() - started
  child.kill()
  await exited
  return ms
}

function saysReady(output: Readable): Promise<void> {
  return new Promise((resolve) => {
    output.on('data', (lines) => {
      if (String(lines).includes('ready')) resolve()
    })
  })
}
