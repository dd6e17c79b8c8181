/** What is wrong with a value that the schema accepts. */
export interface Fault {
  /** JSON pointer of the key to blame. */
  readonly path: string
  readonly message: string
  /** Nothing is wrong but that a file or secret is not on this machine. */
  readonly absent?: boolean
}

/** Finds the faults of a value; paths begin at the value. */
export type Rule<T> = (value: T) => readonly Fault[]

/** What a rule meets where it reads a part that has a fault of its own, or a secret that is absent. */
class UnknownPart extends Error {}

/** Makes a member throw when it is read, so that no rule judges what is not known. */
export function hidePart(target: object, key: string | number): void {
  Object.defineProperty(target, key, {
    enumerable: true,
    configurable: true,
    get() {
      throw new UnknownPart(`${key} is not known`)
    },
  })
}

/** Everything that the rules find. A rule that needs a part that is not known finds nothing. */
export function applyRules<T>(value: T, rules: readonly Rule<T>[], path = ''): Fault[] {
  return rules
    .flatMap((rule) => known(() => rule(value)) ?? [])
    .map((fault) => ({ ...fault, path: `${path}${fault.path}` }))
}

/** Applies the rules to each item that is known. */
export function applyToEach<T>(
  items: readonly T[],
  path: string,
  rules: readonly ((item: T, index: number) => readonly Fault[])[],
): Fault[] {
  return [...items.keys()].flatMap((index) =>
    applyRules(
      items,
      rules.map((rule) => () => rule(items[index] as T, index)),
      `${path}/${index}`,
    ),
  )
}

/** Whether all of a value is known. */
export function isWhole(value: unknown): boolean {
  return known(() => JSON.stringify(value)) !== undefined
}

/** What is read, or undefined where a part of it is not known. */
export function known<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof UnknownPart) return undefined
    throw error
  }
}

/** What a reader throws, as the fault of a key; none if it reads. */
export function faultOf(path: string, read: () => unknown): Fault[] {
  try {
    read()
    return []
  } catch (error) {
    if (error instanceof UnknownPart) throw error
    return [{ path, message: (error as Error).message }]
  }
}
