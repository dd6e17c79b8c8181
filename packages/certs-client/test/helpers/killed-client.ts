import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'

/** What {@link killedClient} is told, as JSON in its first argument. */
export interface KilledClient {
  readonly url: string
  readonly now: number
  readonly dir: string
  readonly csr: boolean
  readonly reload: string | undefined
  /** Before which call of the file system it kills itself, from 1; 0 never. */
  readonly killAt: number
}

/** The calls of the file system that change something or make it last. */
const CALLS = [
  ...['chmodSync', 'chownSync', 'closeSync', 'fchmodSync', 'fchownSync', 'fsyncSync', 'mkdirSync'],
  ...['mkdtempSync', 'openSync', 'renameSync', 'rmSync', 'symlinkSync', 'writeFileSync'],
] as const

/** Counts the calls below `dir`, and kills this process in front of one of them. Of a write, half is done. */
function killAtCall(dir: string, killAt: number): { count: number } {
  const calls = { count: 0 }
  const opened = new Set<unknown>()
  const kill = () => process.kill(process.pid, 'SIGKILL')
  const table = fs as unknown as Record<string, (...args: unknown[]) => unknown>
  const isHere = (what: unknown) =>
    opened.has(what) || (typeof what === 'string' && what.startsWith(dir))
  for (const name of CALLS) {
    const original = table[name] as (...args: unknown[]) => unknown
    table[name] = (...args) => {
      const [first, second] = args
      if (!isHere(name === 'symlinkSync' ? second : first)) return original(...args)
      calls.count += 1
      if (calls.count === killAt) {
        if (name === 'writeFileSync')
          original(first, String(second).slice(0, String(second).length / 2))
        kill()
      }
      const result = original(...args)
      if (name === 'openSync') opened.add(result)
      if (name === 'closeSync') opened.delete(first)
      return result
    }
  }
  syncBuiltinESMExports()
  return calls
}

if (import.meta.main) {
  const { killAt, dir, url, now, csr, reload }: KilledClient = JSON.parse(process.argv[2] ?? '')
  const calls = killAtCall(dir, killAt)
  const { createFetch } = await import('@gatehouse/net')
  const { openCredentials } = await import('../../src/credentials.ts')
  const { getOnce } = await import('../../src/keep.ts')
  const { openFolder } = await import('../../src/place.ts')
  const { connect } = await import('../../src/service.ts')
  const { parseName } = await import('@gatehouse/pki')

  const fetch = createFetch()
  const key = fs.readFileSync(join(dir, '../api.key'), 'utf8')
  const clock = {
    now: () => now,
    setTimer(fn: () => void, ms: number) {
      const timer = setTimeout(fn, ms)
      return { cancel: () => clearTimeout(timer) }
    },
  }
  const log = { info() {}, warn() {}, error() {} }
  const signal = new AbortController().signal
  const credentials = openCredentials(
    { kind: 'key', key: { text: key } },
    { fetch, now: clock.now },
  )
  await getOnce({
    request: { names: [parseName('a.test')], keyType: undefined },
    ...{ isOwnKey: csr, clock, log, signal, random: () => 0, patienceMs: 0 },
    service: connect({
      url: new URL(url),
      credentials,
      fetch,
      now: clock.now,
      actionFor: () => undefined,
    }),
    place: openFolder({
      ...{ dir, domain: 'a.test', mode: 0o640, owner: { uid: -1, gid: process.getgid?.() ?? -1 } },
      ...{ isOwnKey: csr, clock, log, signal },
      reload: reload === undefined ? undefined : { command: reload, timeoutMs: 10_000 },
    }),
  })
  await fetch.close()
  console.log(calls.count)
}
