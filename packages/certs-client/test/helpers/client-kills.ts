import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { bundleScript } from '../../../../scripts/test/bundle-script.ts'
import {
  DAY,
  KEY,
  type Running,
  start,
} from '../../../../services/cert-service/test/helpers/app.ts'
import { getOnce } from '../../src/keep.ts'
import { clientOf, listAll, lookAt } from './client.ts'
import type { KilledClient } from './killed-client.ts'

/** Milliseconds in which a client starts, asks and writes. */
const RUN_MS = 200

/** What a client is doing when it is killed. */
const SCENARIOS = {
  'the first certificate': { csr: false, isRenewal: false, reloads: false },
  'a renewal': { csr: false, isRenewal: true, reloads: true },
  'the first certificate for a key of our own': { csr: true, isRenewal: false, reloads: true },
  'a renewal for a key of our own': { csr: true, isRenewal: true, reloads: false },
}

/**
 * Kills clients in front of every `stride`-th call of the file system in each scenario, and `random`
 * more at any time, each in a folder of its own; looks at what a proxy would find, and has another
 * client go on. Gives how many were killed.
 */
export async function killClients(t: Test, stride: number, random: number): Promise<number> {
  let killed = 0
  const program = join(testFolder(t), 'client.mjs')
  await bundleScript(join(import.meta.dirname, 'killed-client.ts'), program)
  for (const [title, scenario] of Object.entries(SCENARIOS))
    await t.test(title, async (t) => {
      const stage = await prepare(t, program, scenario)
      const steps = Number((await stage.run(0)).stdout)
      t.ok(steps > 30, `${steps} calls`)
      const moments = Array.from({ length: Math.ceil(steps / stride) }, (_, i) => 1 + i * stride)
      const share = Math.ceil(random / Object.keys(SCENARIOS).length)
      const jobs = [
        ...moments.map((killAt) => () => stage.run(killAt)),
        ...Array.from({ length: share }, () => () => stage.run(0, Math.random() * RUN_MS)),
      ]
      await inTwos(jobs, async (job) => {
        const { wasKilled, faults } = await job()
        if (wasKilled) killed += 1
        t.same(faults, [])
      })
    })
  return killed
}

async function prepare(
  t: Test,
  program: string,
  { csr, isRenewal, reloads }: (typeof SCENARIOS)['a renewal'],
) {
  const running = await start(t)
  await running.app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = running.app.server.address() as AddressInfo
  const template = join(running.folder, 'template')
  mkdirSync(template)
  const oldSerial = isRenewal ? await fetchFirst(running, template, csr) : undefined
  let count = 0

  /** Has one client killed, and gives what is wrong afterwards. */
  const run = async (killAt: number, afterMs?: number) => {
    count += 1
    const base = join(running.folder, `run-${count}`)
    const dir = join(base, 'out')
    cpSync(template, dir, { recursive: true, verbatimSymlinks: true })
    writeFileSync(join(base, 'api.key'), KEY)
    const served = join(base, 'served.pem')
    const reload = reloads ? `cp ${dir}/a.test/fullchain.pem ${served}` : undefined
    const told = {
      url: `http://127.0.0.1:${port}`,
      now: running.clock.now(),
      dir,
      csr,
      reload,
      killAt,
    }
    const { stdout, signal } = await spawnKilled(program, told, afterMs)
    const faults = [
      ...faultsAfterKill(dir, oldSerial),
      ...(await faultsAfterNextRun(running, { dir, csr, reload, served })),
    ]
    if (killAt > 0 && signal !== 'SIGKILL') faults.push(`it was not killed: ${stdout}`)
    rmSync(base, { recursive: true })
    const where = `step ${killAt}, after ${afterMs} ms`
    return {
      stdout,
      wasKilled: signal === 'SIGKILL',
      faults: faults.map((fault) => `${where}: ${fault}`),
    }
  }
  return { run }
}

async function fetchFirst(running: Running, dir: string, csr: boolean): Promise<string> {
  await getOnce(clientOf(running, { csr, folder: { dir } }).get)
  await running.clock.advance(5 * DAY)
  return lookAt(dir, 'a.test').serialNumber
}

function spawnKilled(program: string, told: KilledClient, afterMs: number | undefined) {
  return new Promise<{ stdout: string; signal: string | undefined }>((resolve) => {
    const args = [program, JSON.stringify(told)]
    const child = execFile(process.execPath, args, (error, stdout, stderr) => {
      clearTimeout(timer)
      resolve({ stdout: stdout + stderr, signal: error?.signal ?? undefined })
    })
    const timer =
      afterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), afterMs)
  })
}

/** Old files or new ones, whole; if there were none before, perhaps none yet. */
function faultsAfterKill(dir: string, oldSerial: string | undefined): string[] {
  const isThere = existsSync(dir) && listAll(dir).includes('a.test')
  if (!isThere) return oldSerial === undefined ? [] : ['the old files are gone']
  try {
    lookAt(dir, 'a.test')
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

async function faultsAfterNextRun(
  running: Running,
  {
    dir,
    csr,
    reload,
    served,
  }: { dir: string; csr: boolean; reload?: string | undefined; served: string },
): Promise<string[]> {
  const { get } = clientOf(running, {
    csr,
    folder: { dir },
    ...(reload !== undefined && { reload }),
  })
  await getOnce(get)
  const { notAfter } = lookAt(dir, 'a.test')
  const chain = readFileSync(join(dir, 'a.test/fullchain.pem'), 'utf8')
  return [
    ...(notAfter > running.clock.now() + 6 * DAY ? [] : ['the next run did not renew it']),
    ...(listAll(dir).length === 3 ? [] : [`the next run left ${listAll(dir)}`]),
    ...(reload === undefined || readFileSync(served, 'utf8') === chain
      ? []
      : ['the new files were never loaded']),
  ]
}

/** A client waits for the disk and the network, so that two at once take little longer. */
async function inTwos<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items]
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all([worker(), worker()])
}
