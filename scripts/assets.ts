// tsc writes modules alone: what they read when they are loaded is copied beside them.
import { cp, glob } from 'node:fs/promises'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

for await (const file of glob('{packages,services}/*/src/**/*.{css,proto}', { cwd: ROOT }))
  await cp(join(ROOT, file), join(ROOT, file.replace('/src/', '/dist/')))
