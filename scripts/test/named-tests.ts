import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './markdown.ts'

const STRING = /(['"`])((?:\\.|(?!\1).)*)\1/g

const read = new Map<string, ReadonlySet<string>>()

/** Whether a file, by its path from the root, has a test of that name. */
export function hasTest(file: string, name: string): boolean {
  let strings = read.get(file)
  if (!strings) {
    const source = readFileSync(join(ROOT, file), 'utf8')
    strings = new Set([...source.matchAll(STRING)].map(([, , text = '']) => text))
    read.set(file, strings)
  }
  return strings.has(name)
}
