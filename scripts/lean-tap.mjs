// A third of the time of the suite was not for tests, but for what tap does beside running them, for what test files load
// and for a disk. Node loads this file before tap's own, and into test files only.
import hooks from 'node:async_hooks'
import { existsSync, readFileSync, statfsSync } from 'node:fs'
import { registerHooks, syncBuiltinESMExports } from 'node:module'
import { bundleTypebox } from './typebox.mjs'

const MEMORY = '/dev/shm'
/** Bytes that tests never write at once. A container often has a sixteenth of it. */
const ROOM = 1_073_741_824

// tap follows every promise with async hooks, to tell in which test an error was thrown that nobody caught.
// Without them such an error ends its file, which fails as well.
const none = { enable: () => none, disable: () => none }
hooks.createHook = () => none
syncBuiltinESMExports()

// For coverage, tap reads each module and its source map once more, and loads itself into every Node process that a test
// starts. For `t.mockImport`, it looks at every import.
process.setSourceMapsEnabled(false)
const [, file] = process.argv
const unused = ['/@tapjs/processinfo/dist/esm/import.mjs']
if (!readFileSync(file, 'utf8').includes('t.mockImport'))
  unused.push('/@tapjs/mock/dist/esm/import.mjs')
const isUnused = (specifier) => unused.some((module) => specifier.endsWith(module))
const typebox = await bundleTypebox()
registerHooks({
  resolve(specifier, context, next) {
    const url = isUnused(specifier) ? 'data:text/javascript,' : typebox.get(specifier)
    return url ? { url, shortCircuit: true } : next(specifier, context)
  },
})

// What tests write is in memory where the system has a folder for that. Integration tests start programs that may not
// see it.
if (!process.env.TMPDIR && !file.includes('/integration/') && existsSync(MEMORY)) {
  const { bavail, bsize } = statfsSync(MEMORY)
  if (bavail * bsize >= ROOM) process.env.TMPDIR = MEMORY
}

// It is named there to come first, and what a test starts is not to load it.
delete process.env.NODE_OPTIONS
