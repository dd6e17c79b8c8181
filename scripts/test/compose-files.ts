import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

/** The text of a file, by its path from the root. */
export function readProjectFile(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}
