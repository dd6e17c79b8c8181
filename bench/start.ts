import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { bundle } from '../scripts/bundle.ts'
import { nodeCommand } from './harness/child.ts'
import { compare, type Effort } from './harness/compare.ts'
import { atMost, type Row, stated } from './harness/rows.ts'
import { writeServiceFiles } from './harness/service-files.ts'

const NODE_HTTP = fileURLToPath(new URL('sides/node-http.mjs', import.meta.url))
const SOURCE = fileURLToPath(new URL('../services/cert-service/src/main.ts', import.meta.url))
const LIMIT_MS = 150

/** From the start of the process to listening, on one core, with a data folder that is there already. */
export async function start(effort: Effort): Promise<Row[]> {
  const files = writeServiceFiles()
  const serve = ['serve', '--config', files.config]
  const bundled = await bundle('cert-service')
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
  const fromSource =
    effort.comparisons === 'with target' ? [] : [await startFromSource(serve, effort)]
  files.remove()

  const bundleMs = value('bundle')
  const common = { value: bundleMs, unit: 'ms', noise: effort.noise }
  return [
    ...fromSource,
    atMost({
      ...common,
      name: 'start: cert-service as bundle / bare node:http',
      baseline: value('node:http'),
      ratio: ratio('bundle', 'node:http'),
      target: 2,
    }),
    atMost({
      ...common,
      name: `start: cert-service as bundle / ${LIMIT_MS} ms`,
      baseline: LIMIT_MS,
      ratio: bundleMs / LIMIT_MS,
      target: 1,
    }),
  ]
}

async function startFromSource(serve: readonly string[], effort: Effort): Promise<Row> {
  const source = () => startMs(['--conditions=@gatehouse/source', SOURCE, ...serve])
  const { value } = await compare(
    async () => ({ measure: { source }, stop: async () => {} }),
    effort,
  )
  return stated('start: cert-service from source', value('source'), 'ms')
}

/** Each program says when it is ready. */
async function startMs(args: readonly string[]): Promise<number> {
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
