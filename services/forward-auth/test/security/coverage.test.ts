import { globSync, readFileSync } from 'node:fs'
import t from 'tap'

const ROOT = new URL('../', import.meta.url)
/** How many of each are known; the name of a test says which of them it holds off. */
const KNOWN = { attack: 39, mistake: 25 }

const LITERAL = /(['"`])((?:\\.|(?!\1).)*)\1/g
const NUMBERS = /\b(attack|mistake)s? (\d+(?:(?:, | and )\d+)*)/g

t.test('a test for every attack and every mistake', async (t) => {
  const files = globSync('**/*.test.ts', { cwd: ROOT })
  const sources = files.map((file) => readFileSync(new URL(file, ROOT), 'utf8'))
  const names = sources.flatMap((source) => [...source.matchAll(LITERAL)].map(([, , text]) => text))
  const held = { attack: new Set<number>(), mistake: new Set<number>() }
  for (const name of names)
    for (const [, kind, numbers] of String(name).matchAll(NUMBERS))
      for (const [number] of String(numbers).matchAll(/\d+/g))
        held[kind as keyof typeof KNOWN].add(Number(number))

  for (const [kind, count] of Object.entries(KNOWN)) {
    const all = Array.from({ length: count }, (_, i) => i + 1)
    const has = held[kind as keyof typeof KNOWN]
    t.strictSame(
      [...has].sort((a, b) => a - b),
      all,
      `each ${kind}, and none that is not known`,
    )
  }
})
