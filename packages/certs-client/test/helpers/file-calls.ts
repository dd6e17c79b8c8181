import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname, relative } from 'node:path'
import type { Test } from 'tap'

/** The calls that change files or make them last. `rmSync` is not among them: it tidies up after the others. */
const CALLS = [
  ...['openSync', 'writeFileSync', 'fsyncSync', 'fchownSync', 'fchmodSync', 'mkdtempSync'],
  ...['symlinkSync', 'renameSync'],
] as const

type Call = (...args: readonly unknown[]) => unknown

/** Has `around` make each call that changes files, until the test ends or the function that it gives is called. */
function wrapCalls(
  t: Test,
  around: (name: string, args: readonly unknown[], call: () => unknown) => unknown,
): () => void {
  const table = fs as unknown as Record<string, Call>
  const originals = CALLS.map((name) => [name, table[name] as Call] as const)
  for (const [name, original] of originals)
    table[name] = (...args) => around(name, args, () => Reflect.apply(original, fs, args))
  syncBuiltinESMExports()
  const restore = () => {
    Object.assign(fs, Object.fromEntries(originals))
    syncBuiltinESMExports()
  }
  t.teardown(restore)
  return restore
}

/** Has the call of this number among those that change files fail, from 1 on. Gives how many there were. */
export function failAt(t: Test, failing: number | 'all'): () => number {
  let calls = 0
  const restore = wrapCalls(t, (name, _, call) => {
    calls += 1
    if (failing === 'all' || calls === failing)
      throw Object.assign(new Error(name), { code: 'EIO', syscall: name })
    return call()
  })
  return () => {
    restore()
    return calls
  }
}

/** Does something in front of the first call of this name. */
export function before(t: Test, first: (typeof CALLS)[number], act: () => void): void {
  const restore = wrapCalls(t, (name, _, call) => {
    if (name === first) {
      restore()
      act()
    }
    return call()
  })
}

/**
 * Notes in which order files below a folder are written, synchronised with the disk and renamed. A
 * version of a certificate is `VERSION`, and the folder itself `.`.
 */
export function noteWrites(t: Test, dir: string): () => readonly string[] {
  const steps: string[] = []
  const paths = new Map<unknown, string>()
  const short = (path: unknown) =>
    (relative(dir, String(path)) || '.').replace(/^\.[^/]*@[0-9a-f]+-[^/]*/, 'VERSION')
  const restore = wrapCalls(t, (name, args, call) => {
    const result = call()
    const [first, second] = args
    if (name === 'openSync') paths.set(result, String(first))
    if (name === 'writeFileSync') steps.push(`write ${short(paths.get(first))}`)
    if (name === 'fsyncSync') steps.push(`sync ${short(paths.get(first))}`)
    if (name === 'renameSync' && dirname(String(second)) === dir)
      steps.push(`rename ${short(first)} to ${basename(String(second))}`)
    return result
  })
  return () => {
    restore()
    return steps
  }
}
