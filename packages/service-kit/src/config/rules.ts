/** A fault of a value that the schema accepts. */
export interface Fault {
  /** JSON pointer of the key to correct. */
  readonly path: string
  readonly message: string
  /** Whether the only fault is that a file or secret is absent on this machine. */
  readonly absent?: boolean
}

/** Returns the faults of a value, with paths that begin at the value. */
export type Rule<T> = (value: T) => readonly Fault[]

/** Thrown when a rule reads a part that has a fault itself, or a secret that is absent. */
class UnknownPart extends Error {}

/** Makes a member throw {@link UnknownPart} when it is read, so that no rule judges it. */
export function hidePart(target: object, key: string | number): void {
  Object.defineProperty(target, key, {
    enumerable: true,
    configurable: true,
    get() {
      throw new UnknownPart(`${key} is not known`)
    },
  })
}

/** The faults that the rules find. A rule that reads an unknown part finds none. */
export function applyRules<T>(value: T, rules: readonly Rule<T>[], path = ''): Fault[] {
  return rules
    .flatMap((rule) => known(() => rule(value)) ?? [])
    .map((fault) => ({ ...fault, path: `${path}${fault.path}` }))
}

/** The faults that the rules find in each known item of a list. */
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

/** Whether every part of a value is known. */
export function isWhole(value: unknown): boolean {
  return known(() => JSON.stringify(value)) !== undefined
}

/** The result of `read`, or undefined if it reads an unknown part. */
export function known<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof UnknownPart) return undefined
    throw error
  }
}

/** What `read` throws, as a fault of the path. */
export function faultOf(path: string, read: () => unknown): Fault[] {
  try {
    read()
    return []
  } catch (error) {
    if (error instanceof UnknownPart) throw error
    return [{ path, message: (error as Error).message }]
  }
}
