import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '..')

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

/** How many lines the biggest room of a package may have. */
const ROOM_OF_PACKAGE = 4_000
/** How much of a service its biggest room may be. */
const ROOM_OF_SERVICE = 0.2

/** The biggest room of a package or service, and how many lines it may have. */
export function biggestRoom(unit: string, texts: Texts) {
  const rooms = Map.groupBy(texts, ([file]) => roomOf(file))
  const [biggest] = [...rooms]
    .map(([name, files]) => ({ name, lines: linesOf(new Map(files)) }))
    .toSorted((a, b) => b.lines - a.lines)
  if (!biggest) throw new Error(`${unit} has no files`)
  const isService = unit.startsWith('services/')
  return {
    ...biggest,
    most: isService ? Math.floor(linesOf(texts) * ROOM_OF_SERVICE) : ROOM_OF_PACKAGE,
  }
}

/** The names that a module exports, by what it says of other files: `export { a, type B as C } from './a.ts'`. */
export function exportsOf(text: string): string[] {
  return [...text.matchAll(/\bexport\s+(?:type\s+)?\{([^}]*)\}/g)].flatMap(([, list = '']) =>
    list.split(',').flatMap((item) => item.trim().split(/\s+/).at(-1) || []),
  )
}

/** The packages that only Gatehouse uses: their front is small. */
export function privatePackages(): string[] {
  return [...readTexts('packages/*/package.json')].flatMap(([file, text]) =>
    JSON.parse(text).private === true ? dirname(file) : [],
  )
}

function linesOf(texts: Texts): number {
  return [...texts.values()].reduce((sum, text) => sum + text.split('\n').length - 1, 0)
}

/** What a module imports, also for its types alone, which a syntax tree no longer has. */
export function importedBy(text: string): string[] {
  const imports = text.matchAll(/(?:\bfrom\s+|\bimport[\s(]*)['"]([\w@.][^'"\s]*)['"]/g)
  return [...imports].flatMap(([, from]) => from ?? [])
}

/**
 * The pairs of rooms that import each other, with the files that do. A room is a folder or a file right
 * below `src`.
 *
 * @param texts - by the path from `src`
 */
export function twoWayPairs(texts: Texts): string[] {
  const doors = new Map<string, Set<string>>()
  for (const [file, text] of texts)
    for (const path of importedBy(text)) {
      if (!path.startsWith('.')) continue
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
    const { name, lines, most } = biggestRoom(unit, texts)
    print(linesOf(texts), `${unit}, of these ${lines} in ${name}, at most ${most}`)
    for (const pair of twoWayPairs(texts)) console.log(`         ${pair}`)
  }
  for (const unit of privatePackages()) {
    const names = exportsOf(readTexts(`${unit}/src/index.ts`).get(`${unit}/src/index.ts`) ?? '')
    print(names.length, `exports of ${unit}: ${names.join(', ')}`)
  }
  print(linesOf(readTexts('{packages,services}/*/src/**/*.ts')), 'all')
}
