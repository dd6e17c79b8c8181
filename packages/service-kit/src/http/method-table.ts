import createRouter from 'find-my-way'

/** Which methods each path answers, so that a wrong one is told from a wrong path. */
export function createMethodTable() {
  const patterns = createRouter()
  const methodsOf = new Map<string, Set<string>>()

  return {
    add(pattern: string, method: string | readonly string[]): void {
      const known = methodsOf.get(pattern)
      const methods = known ?? new Set()
      for (const name of [method].flat()) methods.add(name)
      if (known) return
      methodsOf.set(pattern, methods)
      patterns.on('GET', pattern, () => {}, methods)
    },
    /** Empty when nothing answers the path. */
    allowedFor(url: string): string[] {
      const found = patterns.find('GET', url.split('?', 1)[0] ?? url)
      return found ? [...(found.store as Set<string>)].toSorted() : []
    },
  }
}
