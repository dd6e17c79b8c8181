/** Random decisions that the same seed repeats, in the same order. */
export interface Random {
  readonly seed: number
  /** At least 0, less than 1. */
  next(): number
  /** A whole number from 0 on, less than that. */
  below(count: number): number
  between(least: number, most: number): number
  chance(share: number): boolean
  pick<T>(items: readonly T[]): T
  /** So many different ones, in any order. */
  some<T>(items: readonly T[], count: number): readonly T[]
  /** Other decisions of the same seed: what one part draws does not depend on the others. */
  fork(name: string): Random
}

export function createRandom(seed: number): Random {
  let state = seed >>> 0
  // Mulberry32: short, and good enough to choose victims.
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (count: number) => Math.floor(next() * count)
  const some = <T>(items: readonly T[], count: number): readonly T[] => {
    const left = [...items]
    return Array.from({ length: Math.min(count, left.length) }, () =>
      left.splice(below(left.length), 1),
    ).flat()
  }
  return {
    seed,
    next,
    below,
    between: (least, most) => least + next() * (most - least),
    chance: (share) => next() < share,
    pick: (items) => {
      const [item] = some(items, 1)
      if (item === undefined) throw new Error('there is nothing to choose from')
      return item
    },
    some,
    fork: (name) => createRandom(hashOf(name) ^ seed),
  }
}

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash >>> 0
}
