import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { UsageError } from './command-line.ts'
import { makeFolder } from './files.ts'

/**
 * Writes `file` and others beside it, by their paths from its folder; `.` is the file itself. Nothing that
 * exists is replaced, and if one cannot be written, none of them stays.
 * @returns their paths, in order
 * @throws UsageError if one of them exists
 */
export async function writeNewFiles(
  file: string,
  files: Readonly<Record<string, { readonly text: string; readonly mode: number }>>,
): Promise<string[]> {
  const paths = Object.keys(files).map((name) => (name === '.' ? file : join(dirname(file), name)))
  const there = paths.find((path) => existsSync(path))
  if (there !== undefined)
    throw new UsageError(`${there} exists and is not replaced; name another file, or remove it`)
  const written: string[] = []
  try {
    for (const [index, { text, mode }] of Object.values(files).entries()) {
      const path = paths[index] ?? ''
      makeFolder(dirname(path), 0o777)
      await writeFile(path, text, { mode, flag: 'wx' })
      written.push(path)
    }
  } catch (error) {
    for (const path of written) await rm(path)
    throw error
  }
  return paths
}

/** Whether a configuration is one of the system, so that a unit of systemd runs the service. */
export function isOfSystem(file: string): boolean {
  return resolve(file).startsWith('/etc/')
}

/** The prefix of the paths of a service's own files, which lie beside its configuration, but never in `/etc`. */
export function statePrefix(file: string, name: string): string {
  return isOfSystem(file) ? `/var/lib/gatehouse/${name}/` : ''
}
