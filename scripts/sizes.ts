import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

/** What is counted beside the packages and services. */
interface Target {
  readonly title: string
  readonly pattern: string
  /** How many lines it is to have. */
  readonly target: number
  /** How many it has, where it does not get there yet: no more. */
  readonly most?: number
}

export const TARGETS: readonly Target[] = [
  {
    title: 'store of cert-service',
    pattern: 'services/cert-service/src/store/**/*.ts',
    target: 4_000,
  },
  {
    title: 'store and audit of forward-auth',
    pattern: 'services/forward-auth/src/{store,audit}/**/*.ts',
    target: 1_400,
  },
  {
    title: 'src of all',
    pattern: '{packages,services}/*/src/**/*.ts',
    target: 52_500,
    most: 54_985,
  },
]

/** The text of each file, by its path. */
type Texts = ReadonlyMap<string, string>

export function readTexts(pattern: string): Texts {
  const files = globSync(pattern, { cwd: ROOT }).sort()
  return new Map(files.map((file) => [file, readFileSync(join(ROOT, file), 'utf8')]))
}

/** The packages and services: the text of each file, by its path from `src`. */
export function readUnits(): ReadonlyMap<string, Texts> {
  // Where a package was, a checkout may still have what was built of it.
  const manifests = globSync('{packages,services}/*/package.json', { cwd: ROOT }).sort()
  return new Map(
    manifests.map(dirname).map((unit) => {
      const files = [...readTexts(`${unit}/src/**/*.ts`)]
      return [unit, new Map(files.map(([file, text]) => [file.slice(`${unit}/src/`.length), text]))]
    }),
  )
}

export function linesOf(texts: Texts): number {
  return [...texts.values()].reduce((sum, text) => sum + text.split('\n').length - 1, 0)
}

/** Also what is imported for its types alone, which a syntax tree no longer has. */
const IMPORTED = /(?:\bfrom|\bimport)[\s(]*['"](\.[^'"]+)['"]/g

/**
 * The pairs of rooms that import each other, with the files that do. A room is a folder or a file right
 * below `src`.
 *
 * @param texts - by the path from `src`
 */
export function twoWayPairs(texts: Texts): string[] {
  const doors = new Map<string, Set<string>>()
  for (const [file, text] of texts)
    for (const [, path = ''] of text.matchAll(IMPORTED)) {
      const door = `${roomOf(file)} ${roomOf(join(file, '..', path))}`
      doors.set(door, (doors.get(door) ?? new Set()).add(file))
    }
  return [...doors].sort().flatMap(([door, files]) => {
    const [from = '', to = ''] = door.split(' ')
    const back = from < to && doors.get(`${to} ${from}`)
    return back ? [`${from} and ${to}: ${[...files, ...back].join(', ')}`] : []
  })
}

const roomOf = (file: string): string => file.split('/', 1)[0] ?? ''

if (import.meta.main) {
  const print = (lines: number, text: string) => console.log(`${lines}`.padStart(6), text)
  for (const [unit, texts] of readUnits()) {
    print(linesOf(texts), unit)
    for (const pair of twoWayPairs(texts)) console.log(`         ${pair}`)
  }
  for (const { title, pattern, target, most = target } of TARGETS)
    print(linesOf(readTexts(pattern)), `${title}: at most ${most}, target ${target}`)
}
